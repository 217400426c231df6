package a2e

import "cmp"

func (m *SpawnReq) write(w *writer) {
	if m.Definition == "" {
		w.config("agent", m.Agent)
	} else if m.Agent.Name != "" {
		w.key("agent")
		w.open()
		w.text("name", m.Agent.Name)
		w.close()
	}
	w.optional("parent_agent_id", string(m.ParentAgentID))
	w.optional("root_agent_id", string(m.RootAgentID))
	if m.Definition == "" {
		return
	}
	w.text("definition", m.Definition)
	if m.Arguments != nil {
		w.raw("arguments", m.Arguments, "", true)
	}
	if len(m.ScopedEnv) > 0 {
		w.dict("scoped_env", m.ScopedEnv)
	}
}

func (m *SpawnResp) write(w *writer) {
	w.text("subagent_id", string(m.SubagentID))
	w.text("status", string(m.Status))
	if len(m.Children) > 0 {
		list(w, "children", m.Children, element)
	}
}

func (m *DelegateReq) write(w *writer) {
	w.text("subagent_id", string(m.SubagentID))
	w.key("task")
	w.open()
	w.text("name", m.Task.Name)
	w.text("instruction", m.Task.Instruction)
	list(w, "success_criteria", m.Task.SuccessCriteria, element)
	w.dict("metadata", m.Task.Metadata)
	w.close()
}

func (m *DelegateResp) write(w *writer) {
	w.boolean("accepted", m.Accepted)
	w.text("status", string(m.Status))
}

func (m *AwaitReq) write(w *writer) {
	w.optional("subagent_id", string(m.SubagentID))
	if len(m.SubagentIDs) > 0 {
		list(w, "subagent_ids", m.SubagentIDs, element)
	}
	w.optional("mode", string(m.Mode))
	if m.Quorum != 0 {
		w.integer("quorum", int64(m.Quorum))
	}
	if m.TimeoutSeconds != 0 {
		w.float("timeout_seconds", m.TimeoutSeconds)
	}
}

func (m *AwaitResp) write(w *writer) {
	w.text("subagent_id", string(m.SubagentID))
	w.text("status", string(m.Status))
	w.raw("result", m.Result, "null", true)
	if m.Error == "" {
		w.key("error")
		w.b = append(w.b, "null"...)
	} else {
		w.text("error", m.Error)
	}
	if len(m.Results) > 0 {
		list(w, "results", m.Results, func(w *writer, r AwaitResp) {
			r.Envelope = Envelope{} // the whole answer has one
			w.message(&r)
		})
	}
	w.optional("reference", m.Reference)
	if m.Session != 0 {
		w.unsigned("session", m.Session)
	}
	w.optional("stopReason", m.StopReason)
	if m.Usage != nil {
		w.raw("usage", m.Usage, "", false)
	}
}

func (m *MessageReq) write(w *writer) {
	w.text("from_subagent_id", string(m.FromSubagentID))
	w.text("to_subagent_id", string(m.ToSubagentID))
	w.key("message")
	w.open()
	w.text("type", m.Message.Type)
	w.raw("content", m.Message.Content, "null", false)
	if len(m.Message.Metadata) > 0 {
		w.dict("metadata", m.Message.Metadata)
	}
	w.close()
}

func (m *MessageResp) write(w *writer) { w.boolean("delivered", m.Delivered) }

func (m *ListReq) write(w *writer) {
	switch len(m.Status) {
	case 0:
	case 1:
		w.text("status", string(m.Status[0]))
	default:
		list(w, "status", m.Status, element)
	}
	w.optional("parent_agent_id", string(m.ParentAgentID))
	if m.Limit != 0 {
		w.integer("limit", int64(m.Limit))
	}
	w.optional("cursor", m.Cursor)
}

func (m *ListResp) write(w *writer) {
	list(w, "subagents", m.Subagents, func(w *writer, s SubagentInfo) {
		w.open()
		w.text("subagent_id", string(s.SubagentID))
		w.text("name", s.Name)
		w.text("status", string(s.Status))
		w.optional("parent_agent_id", string(s.ParentAgentID))
		w.optional("root_agent_id", string(s.RootAgentID))
		w.integer("depth", int64(s.Depth))
		w.config("config", s.Config)
		w.close()
	})
	w.optional("cursor", m.Cursor)
}

func (m *CancelReq) write(w *writer) { w.text("subagent_id", string(m.SubagentID)) }

func (m *TerminateReq) write(w *writer) {
	w.text("subagent_id", string(m.SubagentID))
	w.optional("teardown", string(m.Teardown))
}

func (m *ExtendReq) write(w *writer) {
	w.text("subagent_id", string(m.SubagentID))
	w.float("seconds", m.Seconds)
}

func (m *MergeReq) write(w *writer) {
	list(w, "subagent_ids", m.SubagentIDs, element)
	w.text("strategy", string(cmp.Or(m.Strategy, HierarchicalSummary)))
}

func (m *MergeResp) write(w *writer) { w.raw("merged_result", m.MergedResult, "{}", true) }

func (m *Event) write(w *writer) {
	w.text("subagent_id", string(m.SubagentID))
	w.text("event", m.Event)
	w.raw("content", m.Content, "{}", true)
}

func (m *Error) write(w *writer) {
	w.text("code", string(m.Code))
	w.text("message", m.Message)
	w.key("detail")
	w.open()
	w.optional("field", m.Detail.Field)
	w.optional("id", string(m.Detail.ID))
	w.close()
	w.boolean("retryable", m.Retryable)
}

func (w *writer) config(key string, c SubagentConfig) {
	c = c.WithDefaults()
	w.key(key)
	w.open()
	w.text("name", c.Name)
	w.optional("role", c.Role)
	w.text("model", c.Model)
	w.optional("system_prompt", c.SystemPrompt)
	list(w, "capabilities", c.Capabilities, element)
	w.text("memory_scope", string(c.MemoryScope))
	w.text("tool_scope", string(c.ToolScope))
	w.integer("max_steps", int64(c.MaxSteps))
	w.integer("timeout_seconds", int64(c.TimeoutSeconds))
	w.dict("metadata", c.Metadata)
	if c.IdleTimeoutSeconds != 0 {
		w.integer("idle_timeout_seconds", int64(c.IdleTimeoutSeconds))
	}
	if c.Budget != nil {
		w.budget("budget", c.Budget)
	}
	w.close()
}

func (w *writer) budget(key string, b *Budget) {
	w.key(key)
	w.open()
	for _, n := range []struct {
		key string
		n   int64
	}{{"tokens", b.Tokens}, {"steps", b.Steps}} {
		if n.n != 0 {
			w.integer(n.key, n.n)
		}
	}
	for _, f := range []struct {
		key string
		f   float64
	}{{"usd", b.USD}, {"seconds", b.Seconds}} {
		if f.f != 0 {
			w.float(f.key, f.f)
		}
	}
	w.close()
}

// configSize is how many bytes a configuration takes on the wire.
func configSize(c SubagentConfig) int {
	w := writer{b: []byte{'{'}}
	w.config("", c)
	return len(w.b) - len(`{"":`)
}
