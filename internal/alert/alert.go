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
	"strconv"
	"strings"
	"time"
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
	Object       string `json:"object"`                 // api_key, workspace, provider, integration, user or policy
	ID           string `json:"id"`
	Name         string `json:"name,omitempty"`
	ValueKey     string `json:"value_key,omitempty"` // of the counter of a policy
	Groups       int    `json:"groups,omitempty"`    // of the policy in this period, if the alert is about several

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

// text returns the body of an e-mail.
func (a *Alert) text() string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-16s %s\n", name+":", value)
		}
	}
	d := &a.Data
	b.WriteString(a.subject() + ".\n\n")
	switch a.Type {
	case Exhausted:
		b.WriteString("Requests that need this budget are rejected until it is raised or reset.\n\n")
	case Expired, Ended:
		b.WriteString("Requests that use it are rejected.\n\n")
	case Test:
		b.WriteString("The gateway can send alerts to this address.\n\n")
	}
	line("Object", d.Object)
	line("Name", quoted(d.Name))
	line("Id", d.ID)
	line("Counter", quoted(d.ValueKey))
	if d.Groups > 0 {
		line("Groups", strconv.Itoa(d.Groups))
	}
	line("Workspace", d.Workspace)
	line("Organisation", d.Organisation)
	if d.Measure != "" {
		line("Used", amount(d.Measure, d.Used))
	}
	if d.Threshold != nil {
		line("Alert threshold", amount(d.Measure, *d.Threshold))
	}
	if d.Limit != nil {
		line("Budget", amount(d.Measure, *d.Limit))
	}
	line("Next reset", when(d.ResetsAt))
	line("Expires", when(d.ExpiresAt))
	line("Time", when(&a.Time))
	if d.Last {
		b.WriteString("\nFurther alerts about this object within an hour are only in the audit log.\n")
	}
	return b.String()
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return strconv.Quote(text)
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
