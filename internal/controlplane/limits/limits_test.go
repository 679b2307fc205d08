package limits_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/records/reqlog"
)

// now is a Friday afternoon.
var now = time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC)

func day(month time.Month, d int) time.Time { return time.Date(2026, month, d, 0, 0, 0, 0, time.UTC) }

// mustInput reads usage_limits as a route does.
func mustInput(t *testing.T, text string) *limits.BudgetInput {
	t.Helper()
	var in limits.BudgetInput
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		t.Fatal(err)
	}
	return &in
}

// mustApply returns the budget that text asks for.
func mustApply(t *testing.T, text string, old *limits.Budget, at time.Time) *limits.Budget {
	t.Helper()
	u, err := mustInput(t, text).Apply("usage_limits", old, at)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return u
}

func TestABudgetStartsAgainWhenItsPeriodEnds(t *testing.T) {
	for _, tt := range []struct {
		in   string
		at   time.Time
		want time.Time
	}{
		{`{"credit_limit":1}`, now, time.Time{}},
		{`{"credit_limit":1,"periodic_reset":"monthly"}`, now, day(6, 1)},
		{`{"credit_limit":1,"periodic_reset":"monthly"}`, day(12, 31), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
		{`{"credit_limit":1,"periodic_reset":"weekly"}`, now, day(5, 3)},
		{`{"credit_limit":1,"periodic_reset":"weekly"}`, day(5, 3), day(5, 10)},
		{`{"credit_limit":1,"periodic_reset":"weekly"}`, day(5, 4), day(5, 10)},
		{`{"credit_limit":1,"periodic_reset":"weekly"}`, day(5, 3).Add(-1), day(5, 3)},
		{`{"credit_limit":1,"periodic_reset_days":1}`, now, day(5, 2)},
		{`{"credit_limit":1,"periodic_reset_days":365}`, now, time.Date(2027, 5, 1, 0, 0, 0, 0, time.UTC)},
		{`{"credit_limit":1,"periodic_reset_days":10,"next_usage_reset_at":"2026-05-04T18:00:00+02:00"}`, now, day(5, 4).Add(16 * time.Hour)},
		{`{"credit_limit":1,"periodic_reset":"monthly","next_usage_reset_at":"2026-05-04"}`, now, day(5, 4)},
		{`{"credit_limit":1,"next_usage_reset_at":"2026-05-03T01:00:00+02:00"}`, now, day(5, 2).Add(23 * time.Hour)},
		{`{"credit_limit":1,"next_usage_reset_at":"2026-05-01T23:00:00Z"}`, now, day(5, 1).Add(23 * time.Hour)},
	} {
		if got := mustApply(t, tt.in, nil, tt.at).NextResetAt; !got.Equal(tt.want) {
			t.Errorf("%s at %s starts again %s, want %s", tt.in, tt.at, got, tt.want)
		}
	}
}

func TestABudgetThatMakesNoSenseIsRefusedByItsField(t *testing.T) {
	for in, field := range map[string]string{
		`{}`:                                     "usage_limits",
		`{"type":"cost"}`:                        "usage_limits",
		`{"credit_limit":99,"type":"tokens"}`:    "usage_limits.credit_limit",
		`{"credit_limit":5,"alert_threshold":5}`: "usage_limits.alert_threshold",
		`{"credit_limit":5,"periodic_reset":"weekly","periodic_reset_days":7}`: "usage_limits.periodic_reset_days",
		`{"credit_limit":5,"next_usage_reset_at":"tomorrow"}`:                  "usage_limits.next_usage_reset_at",
		`{"credit_limit":5,"next_usage_reset_at":"2026-13-01"}`:                "usage_limits.next_usage_reset_at",
		`{"credit_limit":5,"next_usage_reset_at":"2026-04-30"}`:                "usage_limits.next_usage_reset_at",
		`{"credit_limit":5,"next_usage_reset_at":"2026-05-01"}`:                "usage_limits.next_usage_reset_at",
	} {
		_, err := mustInput(t, in).Apply("usage_limits", nil, now)
		if err == nil || !strings.HasPrefix(err.Error(), field+" ") {
			t.Errorf("%s: %v, want an error of %s", in, err, field)
		}
	}
}

func TestAnEditKeepsTheScheduleAndTheCount(t *testing.T) {
	old := mustApply(t, `{"credit_limit":10,"periodic_reset_days":10}`, nil, now)
	old.Reset(now.Add(time.Hour))
	later := now.AddDate(0, 0, 3)
	same := mustApply(t, `{"credit_limit":20,"periodic_reset_days":10}`, old, later)
	if !same.NextResetAt.Equal(day(5, 11)) || !same.LastResetAt.Equal(old.LastResetAt) {
		t.Errorf("with the same period: next %s, last %s", same.NextResetAt, same.LastResetAt)
	}
	if other := mustApply(t, `{"credit_limit":20,"periodic_reset_days":9}`, old, later); !other.NextResetAt.Equal(day(5, 13)) {
		t.Errorf("with another period: next %s", other.NextResetAt)
	}
	if none := mustApply(t, `{"credit_limit":20}`, old, later); !none.NextResetAt.IsZero() || !none.LastResetAt.Equal(old.LastResetAt) {
		t.Errorf("without a period: next %s, last %s", none.NextResetAt, none.LastResetAt)
	}
	if late := mustApply(t, `{"credit_limit":20,"periodic_reset_days":10}`, old, day(5, 20)); !late.NextResetAt.Equal(day(5, 30)) {
		t.Errorf("after a missed reset: next %s", late.NextResetAt)
	}
	if tokens := mustApply(t, `{"credit_limit":200,"type":"tokens"}`, old, later); !tokens.LastResetAt.Equal(later) {
		t.Errorf("of another type: last %s", tokens.LastResetAt)
	}
	once := mustApply(t, `{"credit_limit":1,"next_usage_reset_at":"2026-05-04"}`, nil, now)
	if plain := mustApply(t, `{"credit_limit":1}`, once, now); !plain.NextResetAt.IsZero() {
		t.Errorf("a reset that is taken back is still due %s", plain.NextResetAt)
	}
}

func TestRaisingWhatWarnsMakesItWarnAgain(t *testing.T) {
	for _, tt := range []struct {
		name, in             string
		threshold, exhausted bool
	}{
		{"nothing changed", `{"credit_limit":10,"alert_threshold":5}`, true, true},
		{"a lower limit", `{"credit_limit":9,"alert_threshold":5}`, true, true},
		{"a higher limit", `{"credit_limit":11,"alert_threshold":5}`, false, false},
		{"no limit", `{"alert_threshold":5}`, false, false},
		{"a higher threshold", `{"credit_limit":10,"alert_threshold":6}`, false, true},
		{"a lower threshold", `{"credit_limit":10,"alert_threshold":4}`, true, true},
		{"no threshold", `{"credit_limit":10}`, false, true},
		{"another type", `{"credit_limit":1000,"type":"tokens"}`, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old := mustApply(t, `{"credit_limit":10,"alert_threshold":5}`, nil, now)
			old.ThresholdSent, old.ExhaustedSent = true, true
			got := mustApply(t, tt.in, old, now)
			if got.ThresholdSent != tt.threshold || got.ExhaustedSent != tt.exhausted {
				t.Errorf("sent: threshold %t, exhausted %t", got.ThresholdSent, got.ExhaustedSent)
			}
		})
	}
}

func TestMissedResetsAreMadeUpForByOne(t *testing.T) {
	u := mustApply(t, `{"credit_limit":10,"periodic_reset_days":7}`, nil, now)
	if u.Due(day(5, 8).Add(-1)) || !u.Due(day(5, 8)) {
		t.Errorf("due %s", u.NextResetAt)
	}
	u.ThresholdSent, u.ExhaustedSent = true, true
	at := day(5, 30)
	u.Reset(at)
	if !u.NextResetAt.Equal(day(6, 5)) || !u.LastResetAt.Equal(at) || u.ThresholdSent || u.ExhaustedSent {
		t.Errorf("after a reset %+v", u)
	}
	u.Reset(at.Add(time.Hour)) // by hand, ahead of time
	if !u.NextResetAt.Equal(day(6, 5)) {
		t.Errorf("a reset by hand moved the next to %s", u.NextResetAt)
	}
	once := mustApply(t, `{"credit_limit":10,"next_usage_reset_at":"2026-05-04"}`, nil, now)
	if once.Reset(day(5, 4)); once.Due(day(6, 1)) {
		t.Errorf("a single reset comes again %s", once.NextResetAt)
	}
}

func TestABudgetIsExhaustedAtItsLimit(t *testing.T) {
	u := mustApply(t, `{"credit_limit":10}`, nil, now)
	if u.Exhausted(9.99) || !u.Exhausted(10) {
		t.Error("10 dollars are not all of 10 dollars")
	}
	if mustApply(t, `{"alert_threshold":1}`, nil, now).Exhausted(1e9) {
		t.Error("a budget without a limit is exhausted")
	}
}

func TestABudgetComesBackFromItsRow(t *testing.T) {
	u := mustApply(t, `{"credit_limit":10.5,"alert_threshold":5,"periodic_reset_days":7}`, nil, now)
	u.Reset(now)
	u.StartCount(reqlog.Spend{Cost: 1_000_000_000})
	back, err := limits.ReadUsage(u.JSON())
	if diff := cmp.Diff(u, back); err != nil || diff != "" {
		t.Errorf("ReadUsage: %v\n%s", err, diff)
	}
	var none *limits.Budget
	if back, err := limits.ReadUsage(none.JSON()); err != nil || back != nil {
		t.Errorf("ReadUsage(null) = %v, %v", back, err)
	}
	got, _ := json.Marshal(u.Response(reqlog.Spend{Cost: 3_250_000_000}, "active"))
	want := `{"credit_limit":10.5,"type":"cost","alert_threshold":5,"periodic_reset":null,"periodic_reset_days":7,` +
		`"next_usage_reset_at":"2026-05-08T00:00:00.000Z","current_usage":2.25,"status":"active","last_reset_at":"2026-05-01T12:30:00.000Z","on_budget_end":"finish",` +
		`"is_threshold_alerts_sent":false,"is_exhausted_alerts_sent":false,"is_expired_alerts_sent":false}`
	if string(got) != want {
		t.Errorf("answered %s\nwant %s", got, want)
	}
	if none.Response(reqlog.Spend{}, "active") != nil {
		t.Error("no budget is answered with one")
	}
}

func TestBudgetsOfAListGoOnInTheirOwnEntry(t *testing.T) {
	read := func(text string) (list []limits.BudgetInput) {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	old, err := limits.ApplyAll("usage_limits", read(`[{"credit_limit":10},{"credit_limit":1000,"type":"tokens"}]`), nil, now)
	if err != nil {
		t.Fatal(err)
	}
	old[1].LastResetAt, old[1].ExhaustedSent = now, true
	got, err := limits.ApplyAll("usage_limits", read(`[{"credit_limit":900,"type":"tokens"},{"credit_limit":5,"periodic_reset":"weekly"}]`), old, now)
	if err != nil || !got[0].LastResetAt.Equal(now) || !got[0].ExhaustedSent || got[1].ExhaustedSent {
		t.Errorf("ApplyAll = %+v, %v", got, err)
	}
	back, err := limits.ReadUsages(got.JSON())
	if diff := cmp.Diff(got, back); err != nil || diff != "" {
		t.Errorf("ReadUsages: %v\n%s", err, diff)
	}
	_, err = limits.ApplyAll("usage_limits", read(`[{"credit_limit":10},{"credit_limit":11,"type":"cost"}]`), nil, now)
	if err == nil || !strings.HasPrefix(err.Error(), "usage_limits[1] ") {
		t.Errorf("two of a kind: %v", err)
	}
	if text := string(limits.Budgets(nil).JSON()); text != "[]" {
		t.Errorf("no budgets are stored as %s", text)
	}
	for i := range got {
		got[i].StartCount(reqlog.Spend{})
	}
	response := got.Response(reqlog.Spend{Tokens: 900, Cost: 1_500_000_000})
	if len(response) != 2 || response[0].CurrentUsage != 900 || response[0].Status != "exhausted" || response[1].CurrentUsage != 1.5 || response[1].Status != "active" {
		t.Errorf("answered %+v", response)
	}
}

func TestRatesAreOfTheirHoldersUnitsAndNotTwice(t *testing.T) {
	all := limits.Rates{{Type: "requests", Unit: "rps", Value: 1}, {Type: "requests", Unit: "rpm", Value: 1 << 53}, {Type: "tokens", Unit: "rpm", Value: 5}, {Type: "tokens", Unit: "rph", Value: 1}, {Type: "tokens", Unit: "rpd", Value: 1}, {Type: "tokens", Unit: "rpw", Value: 1}}
	if err := errors.Join(all.CheckKey("rate_limits"), all[1:5].Check("rate_limits"), limits.Rates{}.Check("rate_limits"), limits.Rates(nil).CheckKey("rate_limits")); err != nil {
		t.Errorf("valid limits: %v", err)
	}
	for field, list := range map[string]limits.Rates{
		"rate_limits[0].unit ": all[:1], "rate_limits[4].unit ": all[1:], "rate_limits[1] ": {{Type: "tokens", Unit: "rpm", Value: 1}, {Type: "tokens", Unit: "rpm", Value: 2}},
	} {
		if err := list.Check("rate_limits"); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%v: %v, want an error of %s", list, err, field)
		}
	}
	back, err := limits.ReadRates(all.JSON())
	if diff := cmp.Diff(all, back); err != nil || diff != "" {
		t.Errorf("ReadRates: %v\n%s", err, diff)
	}
	if text := string(limits.Rates(nil).JSON()); text != "[]" {
		t.Errorf("no rates are stored as %s", text)
	}
}

func TestABudgetThatLeavesMoreFreesWhatWasExhausted(t *testing.T) {
	before := mustApply(t, `{"credit_limit":1000}`, nil, now)
	for in, want := range map[string]bool{
		`{"credit_limit":1000}`: false, `{"credit_limit":999}`: false, `{"credit_limit":1001}`: true, `{"alert_threshold":5}`: true,
		`{"credit_limit":100,"type":"tokens"}`: true,
	} {
		if got := mustApply(t, in, before, now).Relieves(before); got != want {
			t.Errorf("%s frees = %t, want %t", in, got, want)
		}
	}
	var none *limits.Budget
	if !none.Relieves(before) || before.Relieves(none) {
		t.Error("no budget leaves everything, and had nothing to free")
	}
}
