package store

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// JobResponse is the kind of jobs that run responses in the background. The subject is the
// response.
const JobResponse = "response"

// ResponseTurn is a response of a chain with what the gateway keeps of it.
type ResponseTurn struct {
	ID      string
	Parent  string // id of the response before it; empty for the first
	Content []byte // sealed
}

// ResponseChain returns the turns of a chain that ends in a response of a workspace, the
// first one first. It ends before a response that was deleted, has expired or is not kept
// by the gateway, and after limit turns: then the parent of the first turn is not empty.
func (q Queries) ResponseChain(ctx context.Context, workspace, id string, now time.Time, limit int) ([]ResponseTurn, error) {
	const text = `
		WITH RECURSIVE chain (id, parent_id, depth) AS (
			SELECT id, parent_id, 1
			FROM objects
			WHERE workspace_id = $1 AND kind = 'response' AND id = $2 AND (expires_at IS NULL OR expires_at > $3)
			UNION ALL
			SELECT o.id, o.parent_id, c.depth + 1
			FROM chain c
			JOIN objects o ON o.id = c.parent_id
			WHERE o.workspace_id = $1 AND o.kind = 'response' AND (o.expires_at IS NULL OR o.expires_at > $3) AND c.depth < $4
		)
		SELECT c.id, c.parent_id, t.content
		FROM chain c
		JOIN response_turns t ON t.id = c.id
		ORDER BY c.depth DESC`
	return sqlrow.List(ctx, q.Reader, "turns of a chain", text, func(r sqlrow.Scanner) (t ResponseTurn, err error) {
		err = r.Scan(&t.ID, &t.Parent, &t.Content)
		return t, err
	}, workspace, id, now.UnixMilli(), limit)
}

// ResponseContent returns the sealed content of a response that the gateway keeps.
func (q Queries) ResponseContent(ctx context.Context, id string) ([]byte, error) {
	const text = `
		SELECT content
		FROM response_turns
		WHERE id = $1`
	return sqlrow.One(ctx, q.Reader, "response", text, scanBytes, id)
}

func scanBytes(r sqlrow.Scanner) (b []byte, err error) {
	err = r.Scan(&b)
	return b, err
}

// PutResponseContent stores the content of a response, in place of an earlier one.
func (tx *Tx) PutResponseContent(ctx context.Context, id string, content []byte) error {
	const stmt = `
		INSERT INTO response_turns (id, content)
		VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET content = excluded.content`
	return tx.write(ctx, journal.Unpublished, "response", stmt, id, content)
}

// AddMissingObject stores an object unless the workspace has an object with the same id of its
// provider.
func (tx *Tx) AddMissingObject(ctx context.Context, o Object) (added bool, err error) {
	text := objectTable.insertion() + ` ON CONFLICT DO NOTHING`
	n, err := tx.change.Exec(ctx, journal.Unpublished, text, values(objectTable.columns(&o))...)
	return n > 0, err
}

// ConversationItem is an item of a conversation that the gateway keeps.
type ConversationItem struct {
	ID       string
	Position int64  // rises with each item of the conversation, from 1
	Content  []byte // sealed
}

// ItemQuery selects items of a conversation.
type ItemQuery struct {
	Conversation string
	After        int64 // position; 0 is the beginning of the page order
	Ascending    bool
	Limit        int
}

func scanItem(r sqlrow.Scanner) (i ConversationItem, err error) {
	err = r.Scan(&i.ID, &i.Position, &i.Content)
	return i, err
}

// ConversationItems returns a page of items, and whether there are more.
func (q Queries) ConversationItems(ctx context.Context, x ItemQuery) (list []ConversationItem, more bool, err error) {
	text := `
		SELECT id, position, content
		FROM conversation_items
		WHERE conversation_id = $1 AND (position < $2 OR $2 = 0)
		ORDER BY position DESC
		LIMIT $3`
	if x.Ascending {
		text = `
		SELECT id, position, content
		FROM conversation_items
		WHERE conversation_id = $1 AND (position > $2 OR $2 = 0)
		ORDER BY position
		LIMIT $3`
	}
	list, err = sqlrow.List(ctx, q.Reader, "items of a conversation", text, scanItem, x.Conversation, x.After, x.Limit+1)
	if len(list) > x.Limit {
		return list[:x.Limit], true, err
	}
	return list, false, err
}

// ConversationItem returns an item of a conversation.
func (q Queries) ConversationItem(ctx context.Context, conversation, id string) (ConversationItem, error) {
	const text = `
		SELECT id, position, content
		FROM conversation_items
		WHERE conversation_id = $1 AND id = $2`
	return sqlrow.One(ctx, q.Reader, "item", text, scanItem, conversation, id)
}

// AppendConversation appends items to a conversation, in the order of the list, after all
// that were appended before: appending takes turns. Their positions are set. It returns an
// *apierr.Error of kind NotFound if the conversation was deleted, and of kind Conflict if an
// item has the id of another one, or there would be more than limit items.
func (tx *Tx) AppendConversation(ctx context.Context, conversation string, items []ConversationItem, limit int) error {
	const turn = `
		UPDATE objects
		SET version = version + 1
		WHERE id = $1`
	if err := tx.write(ctx, journal.Unpublished, ObjectConversation, turn, conversation); err != nil {
		return err
	}
	const end = `
		SELECT COALESCE(MAX(position), 0), COUNT(*)
		FROM conversation_items
		WHERE conversation_id = $1`
	type state struct{ last, count int64 }
	s, err := sqlrow.One(ctx, tx.Reader, "items of a conversation", end, func(r sqlrow.Scanner) (s state, err error) {
		err = r.Scan(&s.last, &s.count)
		return s, err
	}, conversation)
	if err != nil {
		return err
	}
	if s.count+int64(len(items)) > int64(limit) {
		return apierr.New(apierr.Conflict, "the conversation has %d of at most %d items; create another one", s.count, limit).
			WithCode("conversation_full")
	}
	for i := range items {
		items[i].Position = s.last + int64(i) + 1
		if err := tx.addItem(ctx, conversation, &items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) addItem(ctx context.Context, conversation string, i *ConversationItem) error {
	const stmt = `
		INSERT INTO conversation_items (conversation_id, position, id, content)
		VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`
	err := tx.write(ctx, journal.Unpublished, "item", stmt, conversation, i.Position, i.ID, i.Content)
	if apierr.IsNotFound(err) {
		return apierr.New(apierr.Conflict, "the conversation already has an item with the id %.80q", i.ID).WithCode("item_exists")
	}
	return err
}

// DeleteConversationItem deletes an item of a conversation. If there is none, it is not
// found.
func (tx *Tx) DeleteConversationItem(ctx context.Context, conversation, id string) error {
	const stmt = `
		DELETE FROM conversation_items
		WHERE conversation_id = $1 AND id = $2`
	return tx.write(ctx, journal.Unpublished, "item", stmt, conversation, id)
}

// ResponseEvents are consecutive events of a response in the background.
type ResponseEvents struct {
	First, Last int64  // sequence numbers
	Content     []byte // sealed
}

// ResponseEventsAfter returns the events of a response that have a sequence number above
// after, in their order, and at most limit rows of them. The first row may begin earlier.
func (q Queries) ResponseEventsAfter(ctx context.Context, response string, after int64, limit int) ([]ResponseEvents, error) {
	const text = `
		SELECT first, last, content
		FROM response_events
		WHERE response_id = $1 AND last > $2
		ORDER BY first
		LIMIT $3`
	return sqlrow.List(ctx, q.Reader, "events of a response", text, func(r sqlrow.Scanner) (e ResponseEvents, err error) {
		err = r.Scan(&e.First, &e.Last, &e.Content)
		return e, err
	}, response, after, limit)
}

// AddResponseEvents stores events of a response.
func (tx *Tx) AddResponseEvents(ctx context.Context, response string, e ResponseEvents) error {
	const stmt = `
		INSERT INTO response_events (response_id, first, last, content)
		VALUES ($1, $2, $3, $4)`
	return tx.write(ctx, journal.Unpublished, "event", stmt, response, e.First, e.Last, e.Content)
}

// followResponse ends the response of a job that ends without having made it, and begins
// that of a job that is queued again.
func followResponse(ctx context.Context, tx *Tx, j *Job) error {
	const again = `
		UPDATE objects
		SET state = 'queued', ended_at = NULL, version = version + 1
		WHERE id = $1 AND state = 'failed'`
	switch j.State {
	case JobQueued:
		return tx.exec(ctx, journal.Unpublished, "responses", again, j.Subject)
	case JobCancelled:
		return tx.endResponse(ctx, j, "cancelled")
	case JobDead, JobFailed:
		return tx.endResponse(ctx, j, "failed")
	}
	return nil
}

// endResponse ends the response of a job, unless it has ended, and emits the event.
func (tx *Tx) endResponse(ctx context.Context, j *Job, state string) error {
	const stmt = `
		UPDATE objects
		SET state = $1, ended_at = $2, version = version + 1
		WHERE id = $3 AND ended_at IS NULL`
	n, err := tx.change.Exec(ctx, journal.Unpublished, stmt, state, millis(j.EndedAt), j.Subject)
	if err != nil || n == 0 {
		return err
	}
	return tx.EmitEvent(ctx, Event{
		Organisation: j.Organisation, Workspace: j.Workspace, Type: "response." + state, Object: j.Subject, Time: j.EndedAt,
	})
}
