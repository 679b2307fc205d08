package guardrail

import (
	"slices"
	"testing"
)

func TestPartsOfAMessageAreJoined(t *testing.T) {
	text := func(message int, role, text string, earlier bool) Part {
		return Part{Kind: Text, Role: role, Message: message, Text: text, Earlier: earlier}
	}
	for _, tt := range []struct {
		name          string
		parts         []Part
		want, earlier []string // joined texts of the last message, and of earlier ones
	}{
		{"one part", []Part{text(0, "user", "a", false)}, nil, nil},
		{"two parts", []Part{text(0, "user", "Blue", false), text(0, "user", "bird", false)}, []string{"Bluebird"}, nil},
		{"parts around others", []Part{text(0, "user", "Blue", false), {Kind: ToolArguments, Role: "user", Text: "x"}, {Kind: Text, Role: "user", Text: "Z", Decoded: true}, text(0, "user", "bird", false)}, []string{"Bluebird"}, nil},
		{"two messages of a user", []Part{text(0, "user", "Blue", true), text(1, "user", "bird", false)}, nil, []string{"Bluebird"}},
		{"three of them", []Part{text(0, "user", "a", true), text(1, "user", "b", false), text(1, "user", "c", false)}, []string{"bc"}, []string{"abc"}},
		{"two earlier messages", []Part{text(0, "user", "a", true), text(1, "user", "b", true), text(2, "assistant", "c", true), text(3, "user", "d", false)}, nil, []string{"ab"}},
		{"two results of tools", []Part{text(0, "tool", "1", false), text(1, "tool", "2", false)}, nil, nil},
		{"two choices", []Part{text(0, "assistant", "1", false), text(1, "assistant", "2", false)}, nil, nil},
		{"messages of several roles", []Part{text(0, "system", "a", true), text(1, "user", "b", false)}, nil, nil},
	} {
		var got, earlier []string
		for _, p := range JoinParts(slices.Clip(tt.parts))[len(tt.parts):] {
			if p.Earlier {
				earlier = append(earlier, p.Text)
			} else {
				got = append(got, p.Text)
			}
		}
		if !slices.Equal(got, tt.want) || !slices.Equal(earlier, tt.earlier) {
			t.Errorf("%s: %q and earlier %q, want %q and %q", tt.name, got, earlier, tt.want, tt.earlier)
		}
	}
}

// A change of a joined text is one of its parts, or cannot be written.
func TestChangesOfJoinedTexts(t *testing.T) {
	in := Input{Parts: JoinParts([]Part{{Kind: Text, Role: "user", Text: "my bird"}, {Kind: Text, Role: "user", Text: "cage"}})}
	for _, tt := range []struct {
		texts []string
		want  string // the joined text; empty for an error
	}{
		{[]string{"my bird", "cage", "my birdcage"}, "my birdcage"},
		{[]string{"my [x]", "cage", "my [x]cage"}, "my [x]cage"},
		{[]string{"prefix my bird", "cage", "my birdcage"}, "prefix my birdcage"},
		{[]string{"my bird", "cage", "my [x]"}, ""},
		{[]string{"my [x]", "cage", "my [x]"}, ""},
	} {
		err := in.join(tt.texts)
		if (err == nil) != (tt.want != "") || err == nil && tt.texts[2] != tt.want || err != nil && !isIncomplete(err) {
			t.Errorf("%q: error %v, want %q", tt.texts, err, tt.want)
		}
	}
}
