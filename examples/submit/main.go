// Command submit posts a task, follows its stream and prints the output.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, cmp.Or(os.Getenv("BLOOM_RUNTIME_URL"), "http://127.0.0.1:5000"), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: submit PROMPT")
	}
	c, err := client.New(url, client.Options{APIKey: os.Getenv("BLOOM_API_KEY")})
	if err != nil {
		return err
	}
	defer c.Close()

	task, err := c.Submit(ctx, bloom.TaskSpec{ContextID: "example", AgentSlug: "assistant", Prompt: args[0]})
	if err != nil {
		return err
	}
	// The stream resumes where it stopped if the connection is lost.
	for event, err := range c.FollowEvents(ctx, task.ID, client.FollowOptions{}) {
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, event.Type)
	}
	if task, err = c.Task(ctx, task.ID); err != nil {
		return err
	}
	if task.Status != bloom.TaskCompleted {
		return fmt.Errorf("the task is %s", task.Status)
	}
	_, output, err := c.TaskOutput(ctx, task.ID)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stdout, string(output))
	return err
}
