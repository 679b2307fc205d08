package attempt

import (
	"fmt"
	"testing"

	"modelgate/internal/model/llm"
)

func TestEveryTypeOfLostContentIsNamedOnce(t *testing.T) {
	l := lostContent{client: "chat"}
	for i := range maxLost + 8 {
		for range 2 {
			l.carry(llm.Native{Dialect: "messages", Type: fmt.Sprint("type", i)})
		}
		l.carry(llm.Native{Dialect: "chat", Type: fmt.Sprint("own", i)})
		l.carry(llm.Text{Text: "text"})
	}
	list := l.changes()
	if len(list) != maxLost {
		t.Fatalf("%d types are named, want %d", len(list), maxLost)
	}
	for i, c := range list {
		if want := fmt.Sprint("response.type", i); c.Name != want {
			t.Errorf("%s is named, want %s", c.Name, want)
		}
	}
}
