// Package alert formats alerts and sends them to webhooks and mail servers.
//
// It guarantees that a webhook receives a signature by which it can verify an alert
// and recognise a repeated one, that an e-mail is sent over TLS unless the operator
// chose otherwise, that text of users cannot change the headers of a message, and
// that a receiver can delay or fill the memory of the gateway only within limits. It
// does not store or retry alerts (see server) or decide when they are due (see
// controlplane/budgets).
package alert

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/webhook"
)

// Types of alerts.
const (
	Threshold = "budget.threshold_reached"
	Exhausted = "budget.exhausted"
	Expiring  = "api_key.expires_soon"
	Expired   = "api_key.expired"
	Ended     = "provider.expired"
	Test      = "test"
)

// Alert is the payload that webhooks and mail servers receive.
type Alert struct {
	ID   string    `json:"-"` // the same for each delivery
	Type string    `json:"type"`
	Time time.Time `json:"timestamp"`
	Data Data      `json:"data"`
}

// Data describes the object of an alert. Amounts are dollars, tokens, requests or
// seconds.
type Data struct {
	Organisation string `json:"organisation_id"`
	Workspace    string `json:"workspace_id,omitempty"` // empty for an object of the organisation

	// Names are added when the alert is sent, and empty if they are unknown.
	OrganisationName string `json:"organisation_name,omitempty"`
	WorkspaceName    string `json:"workspace_name,omitempty"`

	Object   string `json:"object"` // api_key, workspace, provider, integration, user or policy
	ID       string `json:"id"`
	Name     string `json:"name,omitempty"`
	ValueKey string `json:"value_key,omitempty"` // of the counter of a policy
	Groups   int    `json:"groups,omitempty"`    // of the policy in this period, if the alert is about several

	Measure   string     `json:"measure,omitempty"` // cost, tokens, requests or seconds; empty if no budget is concerned
	Used      float64    `json:"used,omitempty"`
	Threshold *float64   `json:"alert_threshold,omitempty"`
	Limit     *float64   `json:"credit_limit,omitempty"`
	ResetsAt  *time.Time `json:"next_usage_reset_at,omitempty"` // nil is never

	ExpiresAt *time.Time `json:"expires_at,omitempty"`

	// Last means that further alerts about the object are not sent within the hour.
	Last bool `json:"further_alerts_suppressed,omitempty"`
}

// JSON returns d in stored form.
func (d Data) JSON() json.RawMessage { return encode(d) }

// payload returns the JSON of a.
func (a *Alert) payload() []byte {
	sent := *a
	sent.Time = a.Time.UTC()
	return encode(sent)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the amounts are finite
	}
	return b
}

var objects = map[string]string{
	"api_key": "API key", "workspace": "Workspace", "provider": "Provider", "integration": "Integration", "user": "User", "policy": "Policy",
}

// subject returns the subject of an e-mail.
func (a *Alert) subject() string {
	of := objects[a.Data.Object]
	if a.Data.Name != "" {
		of += " " + strconv.Quote(a.Data.Name)
	}
	switch a.Type {
	case Threshold:
		return of + ": budget alert threshold reached"
	case Exhausted:
		return of + ": budget exhausted"
	case Expiring:
		return of + " expires soon"
	case Expired, Ended:
		return of + " has expired"
	}
	return "Test alert"
}

// meaning returns what the alert means for requests, empty for nothing.
func (a *Alert) meaning() string {
	switch a.Type {
	case Exhausted:
		return "Requests that need this budget are rejected until it is raised or reset."
	case Expired, Ended:
		return "Requests that use it are rejected."
	case Test:
		return "The gateway can send alerts to this address."
	}
	return ""
}

// facts returns what is known about the object. Texts are as they are stored.
func (a *Alert) facts() (list []webhook.Fact) {
	add := func(name, value string) {
		if value != "" {
			list = append(list, webhook.Fact{Name: name, Value: value})
		}
	}
	d := &a.Data
	add("Object", d.Object)
	add("Name", d.Name)
	add("Id", d.ID)
	add("Counter", d.ValueKey)
	if d.Groups > 0 {
		add("Groups", strconv.Itoa(d.Groups))
	}
	add("Workspace", webhook.NameWithID(d.WorkspaceName, d.Workspace))
	add("Organisation", webhook.NameWithID(d.OrganisationName, d.Organisation))
	if d.Measure != "" {
		add("Used", amount(d.Measure, d.Used)+d.percent(d.Used))
	}
	if d.Threshold != nil {
		add("Alert threshold", amount(d.Measure, *d.Threshold)+d.percent(*d.Threshold))
	}
	if d.Limit != nil {
		add("Budget", amount(d.Measure, *d.Limit))
	}
	add("Next reset", when(d.ResetsAt))
	add("Expires", when(d.ExpiresAt))
	add("Time", when(&a.Time))
	return list
}

// percent returns an amount in per cent of the limit, in brackets; empty without a limit.
func (d *Data) percent(n float64) string {
	if d.Limit == nil || *d.Limit <= 0 {
		return ""
	}
	return " (" + strconv.FormatFloat(math.Round(1000*n / *d.Limit)/10, 'f', -1, 64) + "%)"
}

// further is the last line of an alert after which others are not sent.
const further = "Further alerts about this object within an hour are only in the audit log."

// text returns the body of an e-mail.
func (a *Alert) text() string {
	var b strings.Builder
	b.WriteString(a.subject() + ".\n\n")
	if m := a.meaning(); m != "" {
		b.WriteString(m + "\n\n")
	}
	for _, f := range a.facts() {
		fmt.Fprintf(&b, "%-16s %s\n", f.Name+":", plain(f.Value))
	}
	if a.Data.Last {
		b.WriteString("\n" + further + "\n")
	}
	return b.String()
}

// body returns the message for a webhook in a format.
func (a *Alert) body(f webhook.Format) []byte {
	if f == "" {
		return a.payload()
	}
	n := &webhook.Note{Title: a.subject(), Text: a.meaning(), Facts: a.facts()}
	if a.Data.Last {
		n.Text = strings.TrimSpace(n.Text + " " + further)
	}
	return n.Encode(f)
}

// plain returns a text as it is if it has only characters that show, else in quotation marks
// with escapes, so that it cannot add lines.
func plain(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

func when(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func amount(measure string, n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	if measure == "cost" {
		return "$" + text
	}
	return text + " " + measure
}
