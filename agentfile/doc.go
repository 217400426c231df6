// Package agentfile reads the definitions of agents as people write them: YAML or JSON files, several documents in a
// file. docs/agent.schema.json says what may stand in them; it is the JSON form of [agent.Definition], and this package
// holds a file to it key by key.
//
// A document is one agent, or a list of agents with prompts beside them:
//
//	agents:
//	  - name: assistant_agent
//	    sideA: {prompt: coordinator, subagents: [{agent: research_agent, blocking: true}]}
//	    sideB: {human: true}
//	prompts:
//	  - {name: coordinator, model: builtin/echo, text: You coordinate.}
//
// A prompt that stands by its name alone is one of the prompts of all the files that are read together, and is put in
// its place.
//
// # Values
//
// Numbers, and the order of the keys, come through as they are written. A number has to be written as JSON writes it:
// 0x10, 1_000 and .inf are refused rather than guessed at. A key without a value is a key that is not there. Anchors
// and aliases work, merge keys ("<<") do not.
//
// # Failure
//
// Nothing here ends with the first error: [Read] and [Files.Validate] give every [Problem] there is, each with its file,
// line and column. A definition that could not be read wholly is still checked as far as it was.
package agentfile
