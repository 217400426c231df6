// Package openai speaks to the models of OpenAI, and to the many servers that speak its Chat Completions API:
// Ollama, vLLM, llama.cpp, LiteLLM, OpenRouter and others.
//
// A [Model] serves every name that begins with "openai/". Answers come as a stream. What a conversation looks
// like, what is tried again and what fails how is told in package provider.
//
// # Other servers
//
// A request holds no more than every such server takes: what OpenAI alone knows, the key for its prompt cache
// and its own name for the limit of tokens, goes to OpenAI alone. A server that Config.BaseURL names gets a key
// only if there is one.
//
// # Prompt caching
//
// OpenAI caches the beginning of a request by itself. Messages stay the same bytes from step to step, and the
// thread's id goes along as the cache's key, so that a thread finds its own.
//
// # Structured output
//
// A schema is enforced by the API when it keeps to the rules for that: every object closed, and all its
// properties required. Else the model is only told of it.
package openai
