package semantic_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"modelgate/internal/cache/semantic"
)

func mustRead(t *testing.T, text string) semantic.Turn {
	t.Helper()
	turn, ok := semantic.Read(text)
	if !ok {
		t.Fatalf("Read(%q) returned false", text)
	}
	return turn
}

func TestFactsIgnoreHowATurnIsPhrased(t *testing.T) {
	for _, tt := range []struct{ name, a, b string }{
		{"case and punctuation", "What is the capital of France?", "what's the capital of france"},
		{"politeness", "Hi, could you please tell me the capital of France?", "What is the capital of France?"},
		{"kinds of how", "How do I sort a list?", "what is the way to sort a list"},
		{"contraction", "Why can't I log in?", "Why can not I log in?"},
		{"typographic apostrophe", "Why can’t I log in?", "Why can't I log in?"},
		{"number word", "Name three lakes", "Name 3 lakes"},
		{"separator of thousands", "What is 1,000 plus 2?", "What is 1000 plus 2?"},
		{"unit", "Convert 5km to miles", "Convert 5 kilometres to miles"},
		{"plural", "How do I sort a list of elements?", "How do I sort lists of elements?"},
		{"third person", "How long do eggs take?", "How long does an egg take?"},
		{"phrase of names", "Who rules the United States?", "who rules the united states?"},
		{"unit with a capital", "How much is 5 Kilometers?", "How much is 5 kilometres?"},
		{"spelling", "Which colour has the flavour?", "Which color has the flavor?"},
		{"hyphen", "How do I change my e-mail address?", "How do I change my email address?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a, b := mustRead(t, tt.a), mustRead(t, tt.b); a.Facts != b.Facts {
				t.Errorf("the facts of %q and %q differ", tt.a, tt.b)
			}
		})
	}
}

func TestFactsDifferWhereMeaningDoes(t *testing.T) {
	for _, tt := range []struct{ name, a, b string }{
		{"number", "What is 12 times 12?", "What is 12 times 13?"},
		{"sign", "What is -5 plus 3?", "What is 5 plus 3?"},
		{"decimal comma", "What is 3,14?", "What is 314?"},
		{"negation", "Which metals are magnetic?", "Which metals aren't magnetic?"},
		{"missing space", "May I do that?", "May I not do that?"},
		{"quoted string", `Translate "good day"`, `Translate "good night"`},
		{"typographic quotes", "Translate “good day”", "Translate “good night”"},
		{"single quotes", "Rename 'foo' now", "Rename 'bar' now"},
		{"inline code", "What does `a+b` do?", "What does `a-b` do?"},
		{"fenced code", "Fix this:\n```\nx = 1\n```", "Fix this:\n```\nx  = 1\n```"},
		{"operator", "What does a && b do?", "What does a & b do?"},
		{"brackets", "What is (2 + 3) * 4?", "What is 2 + (3 * 4)?"},
		{"factorial", "What is 5!?", "What is 5?"},
		{"name", "Where does Anna live?", "Where does Hanna live?"},
		{"name and its plural", "Who was William?", "Who was Williams?"},
		{"name and its plural at the beginning", "Roberts did what?", "Robert did what?"},
		{"name and its plural in lower case", "where is peter", "where is peters"},
		{"name of two parts", "Who is Anna-Peter?", "Who is Anna-Peters?"},
		{"name that is a noun", "Who wrote Cats?", "Who wrote Cat?"},
		{"name in two spellings", "Who is Mr Gray?", "Who is Mr Grey?"},
		{"name with a synonym", "Who is Buddy Rich?", "Who is Buddy Wealthy?"},
		{"place", "Where is New Guinea?", "Where is New Guineas?"},
		{"name in lower case", "where is austria", "where is australia"},
		{"name that is a word", "What is the Will?", "What is the will?"},
		{"acronym", "What is REST?", "What is rest?"},
		{"unit", "Wait 30 seconds", "Wait 30 minutes"},
		{"currency", "How much is $100?", "How much is €100?"},
		{"kind of question", "When was Kant born?", "Where was Kant born?"},
		{"yes or no", "Is Paris a capital?", "What is a capital? Paris"},
		{"order", "Does Rome beat Genoa?", "Does Genoa beat Rome?"},
		{"preposition", "books by Darwin", "books about Darwin"},
		{"person", "What is my name?", "What is your name?"},
		{"modal", "Should I eat it?", "Must I eat it?"},
		{"tense", "Who is the king?", "Who was the king?"},
		{"language", "Was ist das?", "What is that cat?"},
		{"lookalike letter", "What is paypal?", "What is pаypal?"},
		{"invisible letter", "What is paypal?", "What is pay\u200bpal?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a, b := mustRead(t, tt.a), mustRead(t, tt.b); a.Facts == b.Facts {
				t.Errorf("the facts of %q and %q are equal", tt.a, tt.b)
			}
		})
	}
}

func TestEveryWordOfALongTurnIsAFact(t *testing.T) {
	long := "Explain the work of people who " + strings.Repeat("know a good way and ", 20) + "use it in an easy example"
	a, b := mustRead(t, long), mustRead(t, strings.Replace(long, "easy", "quick", 1))
	if a.Facts == b.Facts {
		t.Error("one everyday word of a long turn differs, and its facts are equal")
	}
}

func TestTextsThatCannotBeComparedAreNotRead(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "white space": " \n\t ", "punctuation": "?", "not UTF-8": "what is \xff",
		"too long": strings.Repeat("word ", semantic.MaxText/5+1), "ten megabytes": strings.Repeat("a", 10<<20),
	} {
		if _, ok := semantic.Read(text); ok {
			t.Errorf("%s: Read returned true", name)
		}
	}
}

func TestReadingTheWorstTextIsBounded(t *testing.T) {
	pieces := []string{`"a`, "`", "``", "'a'b", "how do ", "can you tell me ", "“", "«x ", "1,000,", "(((", "i'd ", "-", "\u0301", "日本", "a-", "n't "}
	texts := []string{}
	for _, p := range pieces {
		texts = append(texts, strings.Repeat(p, semantic.MaxText/len(p)))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var b strings.Builder
		for b.Len() < semantic.MaxText-20 {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		texts = append(texts, b.String())
	}
	start := time.Now()
	for _, text := range texts {
		semantic.Read(text)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("reading %d texts took %s", len(texts), took)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("What is `x` in \"y\" for 5 km?")
	f.Fuzz(func(t *testing.T, text string) {
		a, okA := semantic.Read(text)
		b, okB := semantic.Read(text)
		if okA != okB || a.Facts != b.Facts {
			t.Errorf("two readings of %q differ", text)
		}
		if _, err := (semantic.Lexical{}).Embed(t.Context(), text); (err == nil) != okA {
			t.Errorf("Embed(%q) returned %v, Read %t", text, err, okA)
		}
	})
}
