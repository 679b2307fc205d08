package admin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Members of bodies with limits.
const (
	budgetMember = "usage_limits"
	ratesMember  = "rate_limits"
)

// shortForm is a flag that sets several members of a body in a short form.
type shortForm struct {
	field field
	has   []string // members that a body must have
	apply func(body map[string]any, texts []string) error
}

// fits reports whether the body of a route has what the form sets.
func (s *shortForm) fits(r *description) bool {
	for _, name := range s.has {
		found := false
		for _, f := range r.Body {
			found = found || f.Name == name
		}
		if !found {
			return false
		}
	}
	return true
}

// Descriptions of the short forms.
const (
	budgetDoc = "budget in dollars or tokens, such as 100/month, 25/week, 10/30d or 5000000tokens/month; without a period it is never reset"
	rateDoc   = "rate limits such as 60rpm (requests), 100000tpm (tokens) or 5concurrent; periods are s, m, h, d and w"
)

var shortForms = []*shortForm{
	{field{Name: "budget", Type: typeText, Doc: budgetDoc}, []string{budgetMember + ".credit_limit"},
		func(body map[string]any, texts []string) error {
			own, _ := body[budgetMember].(map[string]any)
			if own == nil {
				own = make(map[string]any)
			}
			body[budgetMember] = own
			return setBudget(own, texts[len(texts)-1])
		}},
	{field{Name: "budget", Type: typeText, Doc: budgetDoc}, []string{"credit_limit", "periodic_reset"},
		func(body map[string]any, texts []string) error {
			return setBudget(body, texts[len(texts)-1])
		}},
	{field{Name: "rate", Type: typeTexts, Doc: rateDoc}, []string{ratesMember}, func(body map[string]any, texts []string) error {
		list := []any{}
		for _, text := range texts {
			for word := range strings.SplitSeq(text, ",") {
				one := make(map[string]any)
				if err := setRate(one, word); err != nil {
					return err
				}
				list = append(list, one)
			}
		}
		body[ratesMember] = list
		return nil
	}},
	{field{Name: "rate", Type: typeText, Doc: rateDoc}, []string{"type", "unit", "value"}, func(body map[string]any, texts []string) error {
		return setRate(body, texts[len(texts)-1])
	}},
}

// resets are the periods of budgets.
var resets = map[string]string{"month": "monthly", "monthly": "monthly", "week": "weekly", "weekly": "weekly"}

var days = regexp.MustCompile(`^([1-9][0-9]{0,2})d$`)

// setBudget sets the members of a budget.
func setBudget(out map[string]any, text string) error {
	amount, period, periodic := strings.Cut(text, "/")
	unit := "cost"
	if n, ok := strings.CutSuffix(amount, "tokens"); ok {
		amount, unit = strings.TrimSpace(n), "tokens"
	}
	amount = strings.TrimPrefix(amount, "$")
	if _, err := strconv.ParseFloat(amount, 64); err != nil || !json.Valid([]byte(amount)) {
		return fmt.Errorf("must be an amount and a period, such as 100/month or 5000000tokens/week, not %.60q", text)
	}
	out["credit_limit"], out["type"] = json.Number(amount), unit
	delete(out, "periodic_reset")
	delete(out, "periodic_reset_days")
	switch match := days.FindStringSubmatch(period); {
	case !periodic:
	case resets[period] != "":
		out["periodic_reset"] = resets[period]
	case match != nil:
		out["periodic_reset_days"] = json.Number(match[1])
	default:
		return fmt.Errorf("must end in /month, /week or a number of days such as /30d, not %.60q", text)
	}
	return nil
}

var rate = regexp.MustCompile(`^([0-9]+)(r|t)p(s|m|h|d|w)$`)

// setRate sets the members of a rate limit.
func setRate(out map[string]any, text string) error {
	if n, ok := strings.CutSuffix(text, "concurrent"); ok {
		if _, err := strconv.ParseInt(n, 10, 64); err == nil {
			out["type"], out["unit"], out["value"] = "requests", "concurrent", json.Number(n)
			return nil
		}
	}
	match := rate.FindStringSubmatch(text)
	if match == nil {
		return fmt.Errorf("must be a number and a unit, such as 60rpm for requests, 100000tpm for tokens or 5concurrent, not %.60q", text)
	}
	n, err := strconv.ParseInt(match[1], 10, 64)
	if err != nil {
		return fmt.Errorf("has a number that is too large: %.60q", text)
	}
	out["type"] = map[string]string{"r": "requests", "t": "tokens"}[match[2]]
	out["unit"], out["value"] = "rp"+match[3], n
	return nil
}
