package group_test

import (
	"slices"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/group"
)

func TestAFeedNotifiesItsSubscribers(t *testing.T) {
	t.Parallel()
	var feed group.Feed
	var first, second []string
	listen := func(received *[]string) func() {
		return feed.Subscribe(func(changes []bloom.Change) {
			for _, c := range changes {
				*received = append(*received, c.TaskID)
			}
		})
	}
	publish := func(id string) { feed.Publish([]bloom.Change{{TaskID: id}}) }
	publish("nobody listens")
	stop := listen(&first)
	publish("a")
	listen(&second)
	publish("b")
	stop()
	stop()
	publish("c")
	if !slices.Equal(first, []string{"a", "b"}) || !slices.Equal(second, []string{"b", "c"}) {
		t.Errorf("received %v and %v", first, second)
	}
}

func TestPublishingNothingNotifiesNobody(t *testing.T) {
	t.Parallel()
	var feed group.Feed
	feed.Subscribe(func([]bloom.Change) { t.Error("called for nothing") })
	feed.Publish(nil)
}

func TestASubscriberMayStopItself(t *testing.T) {
	t.Parallel()
	var feed group.Feed
	calls := 0
	var stop func()
	stop = feed.Subscribe(func([]bloom.Change) {
		calls++
		stop()
	})
	for range 2 {
		feed.Publish([]bloom.Change{{TaskID: "a"}})
	}
	if calls != 1 {
		t.Errorf("called %d times", calls)
	}
}
