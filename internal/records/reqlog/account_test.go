package reqlog_test

import (
	"math"
	"testing"

	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
)

func TestSpendIsKnownWhereTheCostOfEachResponseIs(t *testing.T) {
	succeeded := reqlog.Settlement{Outcome: reqlog.Answered, Cost: 5, Priced: true, Price: "a"}
	unknown := reqlog.Settlement{Outcome: reqlog.Answered}
	failed, left := reqlog.Settlement{Outcome: reqlog.Failed}, reqlog.Settlement{Outcome: reqlog.Abandoned}
	most := reqlog.Settlement{Outcome: reqlog.Answered, Cost: math.MaxInt64, Priced: true, Price: "b"}
	for _, tt := range []struct {
		name  string
		list  []reqlog.Settlement
		want  catalog.NanoDollars
		known bool
	}{
		{"no attempt", nil, 0, false},
		{"one", []reqlog.Settlement{succeeded}, 5, true},
		{"two responses of one exchange", []reqlog.Settlement{succeeded, succeeded}, 10, true},
		{"after a failure", []reqlog.Settlement{failed, succeeded}, 5, true},
		{"next to one that was abandoned", []reqlog.Settlement{succeeded, left}, 5, true},
		{"one that was abandoned", []reqlog.Settlement{left}, 0, false},
		{"next to one that may have answered", []reqlog.Settlement{succeeded, {Outcome: reqlog.Estimated}}, 0, false},
		{"next to a response whose cost is unknown", []reqlog.Settlement{succeeded, unknown}, 0, false},
		{"more than there is", []reqlog.Settlement{succeeded, most}, math.MaxInt64, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b reqlog.ExchangeCost
			for i := range tt.list {
				b.Add(&tt.list[i])
			}
			if cost, _, known := b.Cost(); cost != tt.want || known != tt.known {
				t.Errorf("Cost = %d, %t; want %d, %t", cost, known, tt.want, tt.known)
			}
		})
	}
}
