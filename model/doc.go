// Package model holds what thinks for a thread: one small interface, [Model], and the models that
// need no provider.
//
// A thread's session goes in steps. The runtime hands a model everything that it may know in a
// [Request] and gets a [Response]: something said, tools to call, a time to sleep, or the end. A
// model keeps nothing between steps, so a step that was lost in a crash is simply taken again, on
// whatever host has the thread by then. That makes a step happen at least once; only its recorded
// response counts.
//
// # Built in
//
//	builtin/echo        ends at once with what it was told
//	builtin/extractive  ends with the sentences of a document that say most of it
//	builtin/script      plays a list of steps out of the task's or the subagent's metadata
//
// All three are deterministic and use nothing but the Request. [New] adds others by name, or by
// the prefix of their provider; the packages below this one have those of Anthropic and OpenAI.
//
// # Results
//
// A result is a JSON object. A model that ends with any other value wraps it as
// {"output": value}; [Object] does that.
//
// # Failure
//
// A model that gives up says so in Response.Fail: that is an outcome, it ends the session and is
// not tried again. An error from Step means that no step took place, and is an [actor.Error]: the
// Kind tells whether another try makes sense. A Step that is interrupted by its context returns
// an error of Kind timeout when the deadline passed, else runtime_error; both wrap the context's
// own error.
package model
