// Package provider is what the models of all providers have in common: a thread's history as the turns of a
// conversation, the tries that a step takes, and what a step's end means. The packages beside it, one for
// each provider, know its SDK and nothing else.
//
// # Conversations
//
// [Converse] makes a [Conversation] of a request. Its turns alternate, the user's first, and every tool call
// has its result in the turn right after it, so that any provider takes it. It is made of the history alone,
// from left to right: the conversation of a later step has that of an earlier one as its beginning, byte for
// byte, which is what a provider's prompt cache needs. Only the last turn of a step that gave nothing, since
// its session was ended meanwhile, grows later.
//
// # Failure
//
// A try that fails for now (no connection, 408, 409, 429, 5xx, a stream that breaks or falls silent) is
// followed by another after a wait that doubles, or that the provider asked for. When there are no more tries,
// the error is an [actor.Error] of Kind unavailable, or timeout when the provider was silent. Errors that
// another try would not mend come at once: unauthorized (no key, a wrong one, no credit), not_found (no such
// model), too_large (more than the model's context), schema_violation (a request that the provider refuses),
// runtime_error (an answer that is none). The end of the context ends a step at once, and is told as model
// says.
//
// An answer that is cut short or refused is an outcome, not an error: Response.Fail tells it, and
// Response.Text keeps what there is.
//
// # Keys
//
// A key is in the requests to the provider and nowhere else. No error wraps what an SDK returned, since that
// holds the request; the texts of errors, and what a model says, have the key taken out.
package provider
