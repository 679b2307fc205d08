package webhooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"modelgate/internal/base/webhook"
	"modelgate/internal/store"
)

// objects are what events are about, by the beginning of their types.
var objects = map[string]string{"batch": "Batch", "response": "Background response", "fine_tuning.job": "Fine-tuning job"}

// encode returns a payload in the format of an endpoint.
func encode(format string, payload json.RawMessage) (json.RawMessage, error) {
	if format == "" {
		return payload, nil
	}
	var p store.Payload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, fmt.Errorf("reading an event: %w", err)
	}
	return noteOf(&p).Encode(webhook.Format(format)), nil
}

// noteOf returns the message for a channel about an event.
func noteOf(p *store.Payload) *webhook.Note {
	i := strings.LastIndexByte(p.Type, '.')
	n := &webhook.Note{Title: objects[p.Type[:max(i, 0)]] + " " + p.Type[i+1:], Facts: []webhook.Fact{{Name: "Id", Value: p.Data.ID}}}
	for _, f := range []webhook.Fact{
		{Name: "Workspace", Value: webhook.NameWithID(p.Data.WorkspaceName, p.Data.Workspace)},
		{Name: "Organisation", Value: webhook.NameWithID(p.Data.OrganisationName, p.Data.Organisation)},
		{Name: "Time", Value: time.Unix(p.Created, 0).UTC().Format(time.RFC3339)},
		{Name: "Event", Value: p.ID},
	} {
		if f.Value != "" {
			n.Facts = append(n.Facts, f)
		}
	}
	return n
}
