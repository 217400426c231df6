package host

import (
	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/model"
)

// multiAgentTools are what a subagent with the capability multi_agent may call (DECISIONS S0.14): the requests of
// A2E, whose fields are the arguments.
var multiAgentTools = func() []model.Tool {
	text := map[string]any{"type": "string"}
	number := map[string]any{"type": "integer", "minimum": 1}
	texts := map[string]any{"type": "array", "items": text}
	free := map[string]any{}
	config := map[string]any{"type": "object", "required": []string{"name", "model"}, "properties": map[string]any{
		"name": text, "model": text, "role": text, "system_prompt": text, "capabilities": texts, "max_steps": number, "timeout_seconds": number,
		"memory_scope": map[string]any{"type": "string", "enum": []a2e.MemoryScope{a2e.MemoryShared, a2e.MemoryIsolated, a2e.MemorySnapshot}},
		"tool_scope":   map[string]any{"type": "string", "enum": []a2e.ToolScope{a2e.ToolsShared, a2e.ToolsRestricted, a2e.ToolsIsolated}},
		"metadata":     map[string]any{"type": "object"},
	}}
	task := map[string]any{"type": "object", "required": []string{"name", "instruction"}, "properties": map[string]any{
		"name": text, "instruction": text, "success_criteria": texts, "metadata": map[string]any{"type": "object"},
	}}
	id := map[string]any{"subagent_id": text}
	return []model.Tool{
		{Name: "subagent_spawn", Description: "Makes a subagent. It does nothing before it is given a task.",
			Schema: object(map[string]any{"agent": config, "parent_agent_id": text}, "agent")},
		{Name: "subagent_delegate", Description: "Gives a subagent a task; it is accepted unless the subagent is busy.",
			Schema: object(map[string]any{"subagent_id": text, "task": task}, "subagent_id", "task")},
		{Name: "subagent_await", Description: "Waits for a subagent's result, or for several.",
			Schema: object(map[string]any{"subagent_id": text, "subagent_ids": texts, "quorum": number, "timeout_seconds": map[string]any{"type": "number"},
				"mode": map[string]any{"type": "string", "enum": []a2e.Mode{a2e.ModeAny, a2e.ModeAll, a2e.ModeQuorum}}})},
		{Name: "subagent_send", Description: "Sends a message to an agent of the tree, which sees it before its next step.",
			Schema: object(map[string]any{"to_subagent_id": text, "message": map[string]any{"type": "object", "required": []string{"type", "content"},
				"properties": map[string]any{"type": text, "content": free, "metadata": map[string]any{"type": "object"}}}}, "to_subagent_id", "message")},
		{Name: "subagent_list", Description: "Lists the subagents below this one.",
			Schema: object(map[string]any{"status": free, "parent_agent_id": text, "limit": number, "cursor": text})},
		{Name: "subagent_cancel", Description: "Cancels what a subagent is doing, and all below it.", Schema: object(id, "subagent_id")},
		{Name: "subagent_terminate", Description: "Ends a subagent for good, and all below it.", Schema: object(id, "subagent_id")},
		{Name: "subagent_merge", Description: "Combines the results of subagents that have completed.",
			Schema: object(map[string]any{"subagent_ids": texts, "strategy": text}, "subagent_ids")},
	}
}()
