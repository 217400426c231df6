// Command client is a program that uses subagents: it spawns one, gives it a task and prints the result. It
// needs a running "troupe up".
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/subjects"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := bus.Connect(ctx, bus.Config{}) // NATS_URL, else nats://127.0.0.1:4222
	if err != nil {
		return err
	}
	defer conn.Close()
	names, err := subjects.New(subjects.DefaultNamespace)
	if err != nil {
		return err
	}
	c, err := client.New(client.Config{Conn: conn, Names: names, Agent: "parent_1"})
	if err != nil {
		return err
	}
	id, err := c.Spawn(ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "researcher", Model: "builtin/echo"}})
	if err != nil {
		return err
	}
	if _, err := c.Delegate(ctx, id, a2e.TaskDefinition{Name: "greeting", Instruction: "hello"}); err != nil {
		return err
	}
	resp, err := c.Await(ctx, id)
	if err != nil {
		return err
	}
	fmt.Println(id, resp.Status, string(resp.Result))
	return nil
}
