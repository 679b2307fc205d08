package limits_test

import (
	"testing"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
)

func spendOf(dollars, tokens int64) reqlog.Spend {
	return reqlog.Spend{Cost: catalog.NanoDollars(dollars * 1_000_000_000), Tokens: tokens}
}

func TestACountIsWhatWasSpentSinceItStarted(t *testing.T) {
	u := mustApply(t, `{"credit_limit":10,"alert_threshold":8}`, nil, now)
	if got := u.Used(spendOf(5, 0)); got != 0 {
		t.Errorf("before it starts it is at %g", got)
	}
	u.StartCount(spendOf(5, 0))
	u.StartCount(spendOf(7, 0)) // it has started
	if got := u.Used(spendOf(9, 100)); got != 4 {
		t.Errorf("used %g, want 4 dollars", got)
	}
	u = mustApply(t, `{"credit_limit":20}`, u, now)
	if got := u.Used(spendOf(9, 100)); got != 4 {
		t.Errorf("after an edit used %g, want 4 dollars", got)
	}
	u.Reset(now)
	u.StartCount(spendOf(9, 100))
	if got := u.Used(spendOf(12, 100)); got != 3 {
		t.Errorf("after a reset used %g, want 3 dollars", got)
	}
	if got := u.Used(spendOf(1, 0)); got != 0 {
		t.Errorf("with a counter that was lost used %g", got)
	}
	u = mustApply(t, `{"credit_limit":200,"type":"tokens"}`, u, now)
	u.StartCount(spendOf(12, 100))
	if got := u.Used(spendOf(99, 150)); got != 50 {
		t.Errorf("of another type used %g, want 50 tokens", got)
	}
}

func TestWarningsAreGivenOnceACount(t *testing.T) {
	u := mustApply(t, `{"credit_limit":10,"alert_threshold":8}`, nil, now)
	u.StartCount(spendOf(0, 0))
	for i, tt := range []struct {
		dollars              int64
		threshold, exhausted bool
	}{{7, false, false}, {8, true, false}, {9, false, false}, {10, false, true}, {11, false, false}} {
		if a, b := u.DueWarnings(spendOf(tt.dollars, 0)); a != tt.threshold || b != tt.exhausted {
			t.Errorf("%d: at %d dollars Judge = %t, %t", i, tt.dollars, a, b)
		}
	}
	u.Reset(now)
	u.StartCount(spendOf(11, 0))
	if a, b := u.DueWarnings(spendOf(21, 0)); !a || !b {
		t.Errorf("after a reset Judge = %t, %t; want both again", a, b)
	}
}

func TestBudgetsAreReadAsTheyAreStored(t *testing.T) {
	for text, want := range map[string]int{
		`null`: 0, `[]`: 0, `{"type":"cost","base":0}`: 1, `[{"type":"cost"},{"type":"tokens"}]`: 2,
	} {
		list, one, err := limits.ParseAny([]byte(text))
		if err != nil || len(list) != want || string(list.Raw(one)) != text {
			t.Errorf("ReadAny(%s) = %v, %t, %v and back %s", text, list, one, err, list.Raw(one))
		}
	}
	if _, _, err := limits.ParseAny([]byte(`{"type":5}`)); err == nil {
		t.Error("something else is read as a budget")
	}
}
