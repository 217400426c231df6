// Package client is the Go API over the bus, for programs, the command line and the gateway. A
// [Client] asks in the name of one agent, as any A2E agent would: through requests to the door of a
// host, through inboxes, events and mail, and through the registry.
//
//	c, err := client.New(client.Config{Conn: conn, Names: names, Agent: "planner"})
//	id, err := c.Spawn(ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "researcher", Model: "builtin/echo"}})
//	_, err = c.Delegate(ctx, id, a2e.TaskDefinition{Name: "t", Instruction: "hello"})
//	resp, err := c.Await(ctx, id)
//
// # Asking again
//
// A request that finds no host, or gets no answer, is made again until its context ends: after a
// second, then every two, while the answer to the first is still listened to. The first answer wins.
// So a host that is frozen, and keeps its share of the requests until the server drops it, costs
// seconds and no failures. A request that must not be done twice (SPAWN, DELEGATE, MESSAGE, MERGE)
// carries one idempotency key for all its tries: a random one, or the caller's, see [Client.WithKey].
// The host keeps the answer for 24 hours and gives it to whoever asks with that key. LIST and AWAIT
// change nothing, and TERMINATE can be done again; what a late CANCEL does is told at [Client.Cancel].
//
// # Waiting
//
// [Client.Await] and what is built on it wait as long as their context allows. They ask again every
// 5 seconds, and when the connection was lost meanwhile, so that a host or a server that stops or
// restarts does not keep an answer from them. A merge, too, waits as long as its context allows.
// Everything else gets [Config.Timeout] if its context has no deadline.
//
// # Large values
//
// A result that travels by reference is fetched and put in the place of the reference.
//
// # Failure
//
// Every error is an *[actor.Error]. What a host refused has the host's Kind. Unavailable means that no
// server or no host answered to the last; Timeout that the time was over, or the context was
// cancelled; TooLarge that a request was not sent, being larger than the server takes.
package client
