package tools

import (
	"context"
	"errors"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolserver"
)

// extensionTasks is the extension by which servers answer a call with a task, whose result the
// client asks for later.
// https://github.com/modelcontextprotocol/experimental-ext-tasks/blob/main/specification/draft/tasks.md
const extensionTasks = "io.modelcontextprotocol/tasks"

// task is a task of a server. Its client knows it by a sealed id: it belongs to one caller, and
// any node finds its server.
type task struct {
	Caller string `json:"c"` // see callerOf
	Server string `json:"s"` // id
	Tool   string `json:"t"` // name at the server
	ID     string `json:"i"` // at the server
}

const (
	taskPrefix = "mgk_"
	// maxTaskID is the limit of the id that a server gives, in bytes: a header repeats that of
	// the client.
	maxTaskID = 1024
	maxTask   = 4 << 10 // bytes, sealed
)

// declaresTasks reports whether the client takes tasks.
func declaresTasks(x *request) bool {
	return x.era == peer.Modern && hasExtension(x.client.Capabilities, extensionTasks)
}

// hasExtension reports whether capabilities, an object or nil, have an extension.
func hasExtension(capabilities []byte, name string) bool {
	v, err := jsonedit.ParseValue(orEmpty(capabilities))
	if err != nil {
		return false
	}
	extensions, _ := v.Get("extensions")
	_, ok := extensions.Get(name)
	return ok
}

// errNoTasks is the error for a client that uses tasks and does not declare them.
var errNoTasks = newError(codeNoCapability, "the client must declare the extension "+extensionTasks).
	withData([]byte(`{"requiredCapabilities":{"extensions":{"` + extensionTasks + `":{}}}}`))

// findTask returns the task with the id that a client sends and its server, and false unless
// it belongs to the caller, who may still use its tool.
func findTask(x *request, id string) (t task, s *toolserver.Server, ok bool) {
	if !openJSON(x.Box, taskPrefix, id, maxTask, &t) || t.Caller != callerOf(x.tools.Identity) {
		return t, nil, false
	}
	for _, s := range x.view.servers {
		if s.ID == t.Server {
			return t, s, x.view.selects(s, t.item())
		}
	}
	return t, nil, false
}

func (t *task) item() toolserver.Item { return toolserver.Item{Kind: toolserver.Tool, Name: t.Tool} }

// useTask serves a request about a task.
func useTask(x *request) error {
	if !declaresTasks(x) {
		return x.reject(x.msg.id, errNoTasks)
	}
	id, _ := x.msg.param("taskId")
	t, server, ok := findTask(x, id)
	if !ok {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, "unknown task: "+cut(id)))
	}
	r := &relay{request: x, server: server, item: t.item(), operation: api.Tools, unknown: "unknown task: " + cut(id), task: &t, taskName: id}
	r.params = append(r.params, setText("taskId", t.ID))
	return r.run()
}

// newTask gives a task that a server has made the id by which its client knows it.
func (r *relay) newTask(doc *jsonedit.Doc) error {
	v, _ := doc.Find("taskId")
	id, ok := v.Text()
	switch {
	case r.operation != api.ToolCall || !declaresTasks(r.request):
		return &peer.Failure{Kind: peer.Invalid, Reason: "the tool server made a task, which this client does not take"}
	case !ok || id == "" || len(id) > maxTaskID:
		return &peer.Failure{Kind: peer.Invalid, Reason: "the tool server made a task without an id, or with one of more than 1,024 bytes"}
	}
	r.task = &task{Caller: callerOf(r.request.tools.Identity), Server: r.server.ID, Tool: r.item.Name, ID: id}
	r.taskName = sealJSON(r.request.Box, taskPrefix, r.task)
	return nil
}

// taskResult returns what a server says of a task, for the client: with its id, and with the
// result of the call as guardrails leave it.
func (r *relay) taskResult(ctx context.Context, doc *jsonedit.Doc) ([]byte, error) {
	edits := []jsonedit.Edit{}
	if _, ok := doc.Find("taskId"); ok {
		edits = append(edits, setText("taskId", r.taskName))
	}
	edit, err := r.taskOutcome(ctx, doc)
	if err != nil {
		return nil, err
	}
	if edit.Name != "" {
		edits = append(edits, edit)
	}
	if _, guarded := r.request.tools.Guards(); guarded {
		if _, asks := doc.Find("inputRequests"); asks {
			return nil, errUnchecked
		}
		return doc.Apply(nil, append(edits, unreadOfTask(doc)...)...), nil
	}
	return doc.Apply(nil, edits...), nil
}

// taskOutcome checks the result or the error of a task that has ended, and returns the edit
// that puts what guardrails left in its place.
func (r *relay) taskOutcome(ctx context.Context, doc *jsonedit.Doc) (edit jsonedit.Edit, err error) {
	for _, name := range [...]string{"result", "error"} {
		v, ok := doc.Find(name)
		if !ok {
			continue
		}
		if v.Kind() != jsonedit.Object || edit.Name != "" {
			return edit, &peer.Failure{Kind: peer.Invalid, Reason: "the tool server sent a task whose " + name + " is not one object"}
		}
		isError, _ := v.Get("isError")
		r.isError, _ = isError.Bool()
		value, err := r.call.CheckResult(ctx, v.Raw())
		if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Denied && name == "result" {
			value, err = r.request.toolError(e), nil
		}
		if err != nil {
			return edit, err
		}
		edit = jsonedit.Edit{Name: name, Value: value}
	}
	if edit.Name == "" {
		_, err = r.call.CheckResult(ctx, []byte("{}")) // the task goes on
	}
	return edit, err
}

// taskStatuses are the states of tasks.
var taskStatuses = []string{"working", "input_required", "completed", "cancelled", "failed"}

// unreadOfTask returns edits that remove what guardrails do not read of a task.
func unreadOfTask(doc *jsonedit.Doc) (edits []jsonedit.Edit) {
	for key, v := range doc.Members() {
		text, isText := v.Text()
		keep := false
		switch name := key.String(); name {
		case "taskId", "result", "error":
			keep = true
		case "resultType":
			keep = text == "complete" || text == "task"
		case "status":
			for _, s := range taskStatuses {
				keep = keep || s == text
			}
		case "createdAt", "lastUpdatedAt":
			_, err := time.Parse(time.RFC3339, text)
			keep = isText && err == nil
		case "ttlMs", "pollIntervalMs":
			keep = v.Kind() == jsonedit.Number || v.IsNull()
		}
		if !keep {
			edits = append(edits, jsonedit.Edit{Name: key.String()})
		}
	}
	return edits
}

// withoutTasks returns capabilities of a client of the legacy era without tasks, which it
// could not follow.
func withoutTasks(capabilities []byte) []byte {
	var doc, extensions jsonedit.Doc
	if doc.Scan(capabilities) != nil {
		return capabilities
	}
	edits := []jsonedit.Edit{{Name: "tasks"}}
	if v, ok := doc.Find("extensions"); ok && extensions.Scan(v.Raw()) == nil {
		edits = append(edits, jsonedit.Edit{Name: "extensions", Value: apply(&extensions, []jsonedit.Edit{{Name: extensionTasks}})})
	}
	return doc.Apply(nil, edits...)
}

// addTasks subscribes to the tasks with the ids of a list that belong to the caller. Guardrails
// on results do not read notifications: clients ask for the task then.
func (w *watch) addTasks(ids jsonedit.Value) {
	if _, guarded := w.request.tools.Guards(); guarded {
		return
	}
	for e := range ids.Elements() {
		id, _ := e.Text()
		if t, server, ok := findTask(w.request, id); ok && len(w.tasks) < maxSubscriptions {
			w.tasks[id] = subscription{server, t.item(), t.ID}
		}
	}
}
