package semantic

import "strings"

// rewrite replaces phrases with the same meaning by one of them.
// Phrases that begin a turn politely are dropped.
func (r *reader) rewrite() {
	opened := false
	for n := r.longest(0, openings); n > 0; n = r.longest(0, openings) {
		r.tokens, opened = r.tokens[n:], true
	}
	if len(r.tokens) > 0 && r.tokens[0].kind == word {
		switch first := &r.tokens[0]; {
		case first.text == "can" || first.text == "could" || first.text == "may":
			r.tokens = append([]token{{"whether", word}}, r.tokens...)
		case auxiliaries[first.text], first.text == "if" && opened:
			first.text = "whether"
		}
	}
	out := make([]token, 0, len(r.tokens))
	for i := 0; i < len(r.tokens); {
		n := r.longest(i, phrases)
		if n == 0 {
			out = append(out, r.tokens[i])
			i++
			continue
		}
		for part := range strings.FieldsSeq(phrases[r.phrase(i, n)]) {
			out = append(out, token{part, word})
		}
		i += n
	}
	r.tokens = out
}

// maxPhrase is the number of words of the longest phrase.
const maxPhrase = 7

// longest returns the number of tokens of the longest phrase in table that
// begins at i, or 0.
func (r *reader) longest(i int, table map[string]string) int {
	if i == len(r.tokens) || !starts[r.tokens[i].text] {
		return 0
	}
	for n := min(maxPhrase, len(r.tokens)-i); n > 0; n-- {
		if p := r.phrase(i, n); p != "" {
			if _, ok := table[p]; ok {
				return n
			}
		}
	}
	return 0
}

// phrase returns n words from i with spaces between them, or an empty string if
// a literal is among them.
func (r *reader) phrase(i, n int) string {
	b := strings.Builder{}
	for j, t := range r.tokens[i : i+n] {
		if t.kind == literal {
			return ""
		}
		if j > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}

// starts holds the first words of all openings and phrases.
var starts = func() map[string]bool {
	m := map[string]bool{}
	for _, table := range []map[string]string{openings, phrases} {
		for p := range table {
			first, _, _ := strings.Cut(p, " ")
			m[first] = true
		}
	}
	return m
}()

// table returns a map from the words or phrases of each line to the first of
// the line. They are separated by "|".
func table(lines string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(lines) {
		first, rest, _ := strings.Cut(strings.TrimSpace(line), "|")
		for alternative := range strings.SplitSeq(rest, "|") {
			if a := strings.TrimSpace(alternative); a != "" {
				m[a] = strings.TrimSpace(first)
			}
		}
	}
	return m
}

// set returns the words of a text.
func set(text string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		m[w] = true
	}
	return m
}

// openings are dropped at the beginning of a turn, one after the other.
var openings = table(`
|hi|hello|hey|hi there|hello there|hey there|good morning|good afternoon|good evening|greetings|dear assistant
|ok|okay|so|well|now|um|please|kindly|quick question|a quick question|just a quick question
|can you|could you|would you|will you|can you please|could you please|would you please|please can you|please could you
|would you mind|would you be able to|are you able to|could you possibly|could you kindly|can you kindly
|can you help me|could you help me|please help me|help me|i need help|i need your help|can i ask|may i ask
|can you help me understand|could you help me understand|help me understand|help me to understand
|explain|explain to me|please explain|describe|please describe
|tell me|please tell me|tell us|let me know|do tell me|i ask you
|can you tell me|could you tell me|would you tell me|can you please tell me|could you please tell me|can someone tell me|can anyone tell me
|do you know|do you happen to know|does anyone know|does anybody know|any idea|do you have any idea|i wonder|i am wondering|i was wondering|i was just wondering|i am curious|just curious|just wondering
|i want to know|i would like to know|i need to know|i d like to know|i want to find out|i would like to find out|i need to find out|i am trying to find out|i am trying to understand|i want to understand|i do not know
|give me|show me|i need|i want|i would like|i want you to|i need you to|i would like you to|i would love to know
|would you mind telling me|do you mind telling me|mind telling me|would you be so kind to tell me
|for my homework|thanks in advance|my question is|here is my question
`)

// phrases are replaced wherever they occur. An empty replacement drops them.
var phrases = table(`
how|how do i|how do you|how do we|how does one|how can i|how can you|how can we|how can one|how could i|how would i|how would you|how would one|how to|how might i|how do people|how does someone|how am i able to
how|what is the way to|what is a way to|what is a good way to|what are the steps to|what is the procedure to|what steps do i take to|what do i do to|what do i need to do to|what must i do to|in what way can i|what are the steps for|what is the process to|what is the process for|what is the procedure for
how|what is the right way to|what is the correct way to|what is the proper way to|what is the method to|what method is used to|what is the method for|the way to|the steps to
howmany|how many|what number of|what is the number of|what is the total number of|the number of
howmuch|how much|what amount of|what quantity of
cost|what is the price of|what does it cost|the price of|the cost of|what is the cost of
howlong|how long|how much time|what length of time|for how long
howold|how old|what age|what is the age of
howfar|how far
howoften|how often|how frequently
when|what time|at what time|on what date|what date|in what year|what year|in which year|which year|on which date|on what day|at which time|in the year when|the year in which|the date on which|the year when
where|where can i|where do i|where could i|where can you|where can one|where do you|in what place|in which place|at what place|at which place|what location|in what location|in which location|what is the location of
why|how come|for what reason|what is the reason|what is the reason for|what is the reason that|what are the reasons|what are the reasons for|what is the cause of|what are the causes of|what causes|what is the reason why|the reason why|the reason for
who wrote|who is the author of|who was the author of|who is the writer of|who authored|who was the writer of
who invented|who is the inventor of|who was the inventor of
who|which person|what person|who is the person who|who is the person that|the name of the person who|whom|who was the person who|who was the person that|which man|which woman
difference|the difference between|the differences between|what is the difference between|what are the differences between|what is different between|what distinguishes|what sets
|thank you|thanks|many thanks|thank you very much|thanks a lot|thank you so much|thanks in advance|thank you in advance|please|kindly|cheers
|you know|by the way|in your opinion|as far as you know|if you know|if you can|if possible|if you do not mind|for me|to me
because of|due to|owing to|on account of
every day|daily|each day
every week|weekly|each week
every month|monthly|each month
every year|yearly|annually|each year|per year|a year|per annum
each|every
united states|the united states|united states of america|the united states of america|u.s|u.s.a
united kingdom|the united kingdom
use|make use of|utilise|utilize|utilises|utilizes
get rid|get rid of
begin|get started with|get started on
|in order to|
about|regarding|concerning|with regard to|with respect to|in relation to
also|as well|as well as
many|a lot of|lots of|plenty of
a few|several|some of
mean|the meaning of|the definition of|what is meant by|what is the meaning of|what is the definition of|what does it mean
`)
