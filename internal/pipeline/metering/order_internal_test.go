package metering

import (
	"net/http"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
)

func TestFaultsOfProvidersCountAgainstNoLimit(t *testing.T) {
	for status, want := range map[int]bool{
		http.StatusBadRequest: false, http.StatusRequestTimeout: true, http.StatusTooManyRequests: true, 499: false,
		http.StatusInternalServerError: true, http.StatusServiceUnavailable: true,
	} {
		if got := providerFault(status); got != want {
			t.Errorf("status %d is a fault of the provider: %t, want %t", status, got, want)
		}
	}
}

func TestEarlierLimitsAreCheckedForRoom(t *testing.T) {
	for used, want := range map[int64]bool{0: false, 1: false, 2: true} {
		l := &quota.Limit{Counter: "key/requests", Max: 2, Window: time.Hour, Holder: quota.Holder{Kind: "key", Name: "k"}}
		counters := new(quota.Memory)
		for range used {
			if v, err := counters.Reserve(t.Context(), time.Now(), []quota.Claim{{Limit: l, Amount: 1, Least: 1}}); err != nil || v.Refused >= 0 {
				t.Fatal(v, err)
			}
		}
		r := &exchange.Request{Operation: api.Chat, Limiting: exchange.Limiting{Limits: []*quota.Limit{l}}}
		exhausted := apierr.New(apierr.BudgetExhausted, "a later budget").WithCause(&quota.Exhausted{Kind: "workspace"})
		err := EarlierLimit(t.Context(), r, counters, new(exchange.Trail), exhausted)
		if got := err != error(exhausted); got != want {
			t.Errorf("with %d of 2 requests in progress: %v, want the error of the limit: %t", used, err, want)
		}
	}
}
