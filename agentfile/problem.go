package agentfile

import (
	"cmp"
	"fmt"

	"github.com/troupehq/troupe/agent"
)

// A Problem is one thing that is wrong in a file, and where. Its path begins in the file: "agents[0]" is the first
// agent of all the documents there, "prompts[0]" the first prompt.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`   // from 1; 0 when the file could not be read
	Column int    `json:"column,omitempty"` // from 1, in characters; 0 when it is not known
	agent.Problem
}

// String is one line: "agents/a.yaml:12:5: subagent_reserved_name: agents[0].sideA.subagents[1].as: …".
func (p Problem) String() string {
	where := p.File
	if p.Line > 0 {
		where += fmt.Sprintf(":%d", p.Line)
	}
	if p.Column > 0 {
		where += fmt.Sprintf(":%d", p.Column)
	}
	text := string(p.Code) + ": " + p.Message
	if p.Path != "" {
		text = p.Problem.String()
	}
	return where + ": " + text
}

// compare orders the problems of one file by where they stand.
func compare(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path),
		cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
}
