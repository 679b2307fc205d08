package simulator

import (
	"bytes"
	"net/http"
	"strings"
)

// flaggedWord is the word for which a text is flagged, as violence.
const flaggedWord = "violence"

var categories = []string{
	"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm",
	"self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
}

// serveModerations answers POST /moderations: a text with the word violence is
// flagged.
func serveModerations(x *exchange) {
	var (
		wrong  providerError
		inputs []input
	)
	member := func(s *scanner, key []byte) {
		if string(key) == "input" {
			inputs = s.inputsOf("input", &wrong)
			return
		}
		s.skip()
	}
	needed := func() providerError {
		if len(inputs) == 0 {
			return missing("input")
		}
		return providerError{}
	}
	if !x.readObject(&wrong, member, needed) {
		return
	}
	x.prompt = sumTokens(inputs)
	x.out = append(x.out[:0], `{"id":"modr-simulator","model":"`...)
	x.out = append(append(x.out, x.rawName...), `","results":[`...)
	for i, in := range inputs {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = appendVerdict(x.out, bytes.Contains(in.raw, []byte(flaggedWord)))
	}
	x.out = append(x.out, `]}`...)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

func appendVerdict(dst []byte, flagged bool) []byte {
	word := map[bool]string{true: "true", false: "false"}
	var marks, scores []string
	for _, c := range categories {
		hit := flagged && c == flaggedWord
		score := "0.0001"
		if hit {
			score = "0.97"
		}
		marks = append(marks, `"`+c+`":`+word[hit])
		scores = append(scores, `"`+c+`":`+score)
	}
	return append(dst, `{"flagged":`+word[flagged]+`,"categories":{`+strings.Join(marks, ",")+
		`},"category_scores":{`+strings.Join(scores, ",")+`}}`...)
}
