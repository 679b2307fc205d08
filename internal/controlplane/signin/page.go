package signin

import (
	"bytes"
	_ "embed"
	"html/template"

	"modelgate/internal/controlplane/route"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// shownPage is what a page shows: a sentence, or the steps of a test.
type shownPage struct {
	Title, Said string
	Link        string // where a sign-in begins; may be empty
	Steps       []step
	Claims      []claim
}

type claim struct{ Name, Value string }

func show(status int, p shownPage) *route.Answer {
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, p); err != nil {
		return &route.Answer{Status: status, Type: "text/plain; charset=utf-8", Body: []byte(p.Said)}
	}
	return &route.Answer{Status: status, Body: out.Bytes()}
}

// page returns a page with one sentence.
func page(status int, said string) *route.Answer {
	return show(status, shownPage{Title: "Sign in", Said: said})
}

// testPage shows the end of a sign-in that is only a test.
func testPage(in *person, refused *refusal, last step) *route.Answer {
	p := shownPage{Title: "Test of the sign-in", Said: "The test is over. Nobody was signed in."}
	if refused != nil {
		s := step{Name: "sign_in", Outcome: stepFailed, Detail: refused.reason}
		if refused.err != nil {
			s.Detail += ": " + refused.err.Error()
		}
		p.Steps = []step{s}
		return show(0, p)
	}
	p.Steps = []step{{Name: "sign_in", Outcome: stepOK, Detail: "what the provider sent is valid"}, last}
	groups := "unknown: the provider did not send them all"
	if in.GroupsKnown {
		groups = join(in.Groups)
	}
	p.Claims = []claim{
		{"issuer", in.Issuer}, {"subject", in.Subject}, {"e-mail address", in.Email}, {"vouched for", yes(in.Proved)},
		{"domain", in.Domain},
		{"first name", in.FirstName}, {"last name", in.LastName}, {"groups", groups},
		{"session", in.Session}, {"authentication", join(in.Authn)},
	}
	return show(0, p)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
