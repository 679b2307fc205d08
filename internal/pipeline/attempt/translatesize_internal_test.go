package attempt

import (
	"strings"
	"testing"
)

func TestTranslationIsCountedByItsStructures(t *testing.T) {
	text := strings.Repeat(`{[,\"`, 1<<20)
	for _, tt := range []struct {
		name, body                  string
		structures, values, numbers int
	}{
		{"nothing", `"a"`, 0, 0, 0},
		{"small", `{"a":[1,2, -3 ,{"b":"c"}]}`, 3, 1, 2},
		{"text that looks like structures", `{"a":"` + text + `","b":1}`, 1, 1, 0},
		{"escapes at the end of a string", `{"a":"\\","b":"\\\"{","c":["\\\\"]}`, 2, 2, 0},
		{"many messages", `[` + strings.Repeat(`{"a":"b"},`, 1<<20) + `{}]`, 1<<20 + 2, 1 << 20, 0},
		{"numbers", `[0.5` + strings.Repeat(",\n0.5", 1<<20) + `]`, 1, 0, 1 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			structures, values, numbers := countStructures([]byte(tt.body))
			if structures != tt.structures || values != tt.values || numbers != tt.numbers {
				t.Errorf("countStructures = %d, %d, %d; want %d, %d, %d", structures, values, numbers, tt.structures, tt.values, tt.numbers)
			}
			exact := 2*len(tt.body) + tt.structures*bytesPerStructure + tt.values*bytesPerValue + tt.numbers*bytesPerNumber
			if got := translationSize([]byte(tt.body)); got < exact || got > exact+smallTranslation {
				t.Errorf("translationSize = %d, want %d or a little more", got, exact)
			}
		})
	}
}
