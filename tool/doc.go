// Package tool holds what models can call: one small interface, [Tool], and a [Registry] of tools by name,
// which come from four places.
//
//   - Go functions, made by [Func], whose schema is derived from the Go type that they take.
//   - NATS micro endpoints ([Endpoint]): the arguments are the request, the response is the result.
//   - MCP servers ([Server]), run as a command or reached over HTTP. A server's tools are named
//     <server>_<tool>.
//   - Workers on other hosts ([Remote]), which a host reaches through their queue.
//
// # Use
//
//	cfg, err := tool.ReadFile("tools.yaml")             // or a Config of one's own
//	cfg.Requester, cfg.LookupEnv = conn, os.LookupEnv
//	r, err := tool.New(cfg)
//	go r.Serve(ctx)                                     // keeps the MCP servers
//	tools, err := r.Describe(ctx, []string{"weather", "files_*"})
//	result, err := r.Call(ctx, "weather", tool.Call{ID: id, Arguments: arguments})
//
// # Results
//
// Whatever goes wrong in a call is its result, with IsError set: arguments that do not fit the schema, which
// the tool never sees; an error or a panic of the tool; a server that can't be reached; an answer
// over [Config.MaxResult]. The content of such a result is {"code": …, "message": …}, with a "field" where one
// is to blame, unless the tool said itself what its error is. The only error of a call is that its context
// ended, when nobody waits for a result.
//
// A call is made at least once: a runtime that crashes makes it again, under the same Call.ID. A Go function
// finds that in [CallOf], an endpoint in the header Troupe-Call, an MCP server in _meta as troupe/call.
//
// # Concurrency
//
// A Registry is used from any number of goroutines. All goroutines that it needs beside its callers' run
// within [Registry.Serve]. Calls of MCP tools wait, within their own time, until that runs.
//
// # Failure
//
// An MCP server is started when it is first needed. One that died is started again when it is needed again,
// at once at first, then after 100 ms, doubled up to 30 s, until a call has succeeded. Calls wait for that where it is
// no more than a second away, and fail as unavailable where it is. The call that it died
// under fails as unavailable and is not repeated here: nobody knows what it has done. What a server
// offered last is described as long as it is away, so that a model's list of tools does not
// change with its health.
package tool
