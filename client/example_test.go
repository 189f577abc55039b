package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// Submit a task and wait for its result.
func Example() {
	ctx := context.Background()
	c, err := client.New("http://127.0.0.1:5000", client.Options{APIKey: os.Getenv("BLOOM_API_KEY")})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	task, err := c.Submit(ctx, bloom.TaskSpec{ContextID: "release-notes", AgentSlug: "writer", Prompt: "Summarise CHANGELOG.md"})
	if err != nil {
		log.Fatal(err)
	}
	if task, err = c.Await(ctx, task.ID); err != nil {
		log.Fatal(err)
	}
	_, output, err := c.TaskOutput(ctx, task.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", task.Status, output)
}

// Follow a task as it runs. The stream survives restarts of the server and ends with the task.
func ExampleClient_FollowEvents() {
	c, _ := client.New("http://127.0.0.1:5000", client.Options{})
	for event, err := range c.FollowEvents(context.Background(), "0199…", client.FollowOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Seq, event.Type, string(event.Data))
	}
}

// List every failed task, page by page.
func ExampleClient_AllTasks() {
	c, _ := client.New("http://127.0.0.1:5000", client.Options{})
	for task, err := range c.AllTasks(context.Background(), bloom.TaskQuery{Status: bloom.TaskFailed}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(task.ID, *task.ErrorClass)
	}
}

// Be a worker: claim, report, complete. A lost lease and an unreachable server need different
// reactions.
func ExampleClient_Claim() {
	ctx := context.Background()
	c, _ := client.New("http://127.0.0.1:5000", client.Options{APIKey: os.Getenv("RUNTIME_WORKER_KEY")})
	got, err := c.Claim(ctx, "node-1", client.Claim{Max: 1, Wait: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	for _, held := range got.Leases {
		_, err := c.Heartbeat(ctx, held.Task.ID, held.Lease.ID, nil)
		switch {
		case errors.Is(err, bloom.ErrLeaseLost):
			continue // another worker has it by now
		case client.IsUnreachable(err):
			fmt.Println("work on while the lease lasts:", err)
		}
		output := "done"
		_, err = c.Complete(ctx, held.Task.ID, bloom.Completion{LeaseID: held.Lease.ID, Status: bloom.OutcomeSuccess, Output: &output})
		if err != nil {
			log.Fatal(err)
		}
	}
}

// Copy an artifact to a file. A copy that differs from the recorded digest is an error.
func ExampleClient_ArtifactContent() {
	c, _ := client.New("http://127.0.0.1:5000", client.Options{})
	content, artifact, err := c.ArtifactContent(context.Background(), "0199…")
	if err != nil {
		log.Fatal(err)
	}
	defer content.Close()
	file, err := os.Create("output.txt")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(file, content); err != nil {
		log.Fatal(err)
	}
	fmt.Println(artifact.Size, "bytes, verified")
}
