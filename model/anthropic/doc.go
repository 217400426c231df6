// Package anthropic speaks to the models of Anthropic, and to servers that speak its Messages API.
//
// A [Model] serves every name that begins with "anthropic/". Answers come as a stream. Tools, parallel calls
// and structured output go by the API's own means; what a conversation looks like, what is tried again and what
// fails how is told in package provider.
//
// # Prompt caching
//
// The system prompt, with the tools before it, and the end of the conversation are marked for the cache. The
// mark of the end is a field of the request and not of a message, so that messages stay the same bytes from
// step to step. The API finds an earlier mark up to 20 blocks back; after a step of more, the message before
// it is marked as well.
//
// # Thinking
//
// Whether a model thinks is left to its default. Thoughts are neither kept nor sent again.
package anthropic
