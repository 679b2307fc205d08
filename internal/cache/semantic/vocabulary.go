package semantic

import "strings"

// wordClass is what a word contributes to a turn.
type wordClass uint8

const (
	fact     wordClass = iota // must be in both turns, in the same order
	everyday                  // compared by its vector only
	empty                     // carries no meaning
	mark                      // the kind of question
)

// class returns the class of a word in lower case. A word that is not in the
// vocabulary is a fact: a name, a term, a word of another language.
func class(w string) wordClass {
	switch {
	case questions[w]:
		return mark
	case neutral[w]:
		return empty
	case ordinary[w]:
		return everyday
	}
	return fact
}

// canonical returns the spelling of a word that stands for its other spellings,
// its plural and its synonyms.
func canonical(w string) string {
	w = spelling(w)
	if one := singular(w); one != w {
		w = spelling(one)
	}
	return w
}

func spelling(w string) string {
	if s, ok := spellings[w]; ok {
		return s
	}
	if stem, ok := strings.CutSuffix(w, "ise"); ok && len(w) >= 7 {
		return stem + "ize"
	}
	if stem, ok := strings.CutSuffix(w, "isation"); ok {
		return stem + "ization"
	}
	return w
}

// singular returns the singular of a regular plural, and a verb without its ending, if
// it is in countable. Other words that end in s stay: they may be names, and Williams is
// not William.
func singular(w string) string {
	for _, ending := range [...][2]string{{"s", ""}, {"es", ""}, {"ies", "y"}} {
		if stem, ok := strings.CutSuffix(w, ending[0]); ok && countable[stem+ending[1]] {
			return stem + ending[1]
		}
	}
	return w
}

// canonicalUnit returns the name of a unit.
func canonicalUnit(u string) string {
	u = strings.TrimPrefix(u, "°")
	if s, ok := spellings[u]; ok {
		return s
	}
	return singular(u)
}

// questions are kinds of questions. "What" and "which" are neutral: a turn that
// names a thing asks what it is.
var questions = set(`how howmany howmuch howlong howold howfar howoften when where why who whose whether`)

// auxiliaries begin a question that is answered by yes or no.
var auxiliaries = set(`is are am do does`)

// verbs make a sentence, which a question mark turns into a question.
var verbs = set(`is are am was were do does did has have had can could will would should must may might`)

// neutral words are dropped. A negation, a comparison, a tense and a person are
// not among them.
var neutral = set(`a an the of is are am be been being do does what which that this these those it its i me my we us our
please just really actually basically simply exactly kindly there here so then and`)

// ordinary words are everyday vocabulary.
var ordinary = set(`get give show find know want need make take go come see look say tell think let keep put try ask help
way method approach thing stuff place part kind sort type lot bit example
important useful possible available common usual usually normally typically generally often simple easy quick quickly easily
explain describe
call called name named known
work works working use used using
someone somebody anyone anybody everyone people person
something anything everything
good great nice proper correct right
currently today
for in`)

// solid are words that are often written in capitals for emphasis.
var solid = set(`the is are a an of what how why when where who please i`)

// joined are words that are written with and without a hyphen.
var joined = set(`email online offline website ecommerce startup signup login logout backup cooperate coordinate preorder reuse
nonprofit multithreaded opensource frontend backend realtime fulltime parttime`)

// ambiguous are words that mean something else as a name.
var ambiguous = set(`polish turkey china march may august mercury reading nice job mobile cologne bill mark rose grant will frank
jack amazon apple oracle java python ruby shell meta windows word excel access outlook teams slack chrome safari opera edge
target gap visa discover delta orange virgin galaxy titan swift rust go dart scala elixir julia basic pages
numbers keynote notes maps drive docs sheets photos messages signal telegram zoom square stripe plaid spring flask django
express react angular next node deno bun atom brackets sublime sage fable prince queen kiss cream yes rush heart journey`)

// countable are common nouns and verbs that mean the same with the ending of a plural or
// of the third person. None is also a name whose plural is another name, as in Bridges.
var countable = set(`account acre activity address advantage age agency airport algorithm allergy amount animal answer appliance application area argument array article
artist athlete author baby bag ball banana battery bean bed benefit bird birthday bit boat body bone book bottle bowl box boy branch brand browser bug
bus button byte cable cake calculation calendar calorie camera campaign candidate capital carrot case cat category cause cell centimeter century chair
chapter charge chart check chemical chicken cigarette class click closure cloud clue coin column comment commit community company component computer
concept condition configuration connection contract contribution copy cost country couple course credit crime criterion crop cup currency customer
cycle database dataset date day debt decade decision deduction degree depend deposit device diet difference dinosaur disadvantage discount disease
dish division document dog dollar donation download drawing dream drink driver drug dynasty ear effect egg election element elephant email emotion
employee employer engine enzyme equation error essay euro event example exception exercise expense experiment export eye fact factor failure family
farm feature fee file film filter finger fish flavor flight folder follow food form formula fraction friend fruit function fund galaxy gallon
game garden gene genre gigabyte girl goal goat government grade gram grape group guest guide guideline guitar habit hand happen hat heading headline
health hectare help hobby hole holiday horse hospital hotel hour house human idea image inch income index ingredient input insect instrument insurance
interest interface interview invention investment invoice island issue item jacket joke key keyboard kid kilobyte kilogram kilometer kilowatt kingdom
kitchen knife label ladder language laptop lawyer layer leaf leg lemon lesson letter level library limit line link lion liquid list liter loan
location loop loss lung machine magazine magnet mammal map market match material meal mean meaning measure measurement meat medicine meeting megabyte
member memory message metal meter method microbe mile milliliter millimeter millisecond mineral mistake model molecule moment monkey month moon
mortgage motor mountain mouth movie muscle museum mushroom musician mutation name need neighbor network noun novel number nurse nutrient object ocean
offer office onion operation operator opinion option orange order organ organism ounce output owner oxide package page pan paragraph parameter parent
parrot participant password patient pattern payment pear pen pencil penguin period permission pet phase phrase pie piece pig pill pilot pint pipe
pixel plan planet plant plate player plot plugin poem poet point policy potato pound practice prefix prepare president prime printer prize problem
procedure process product profit program project promise property protein protocol province purchase purpose quart query question rabbit radiator rate
reaction reason receipt recipe recommendation record refund region regulation relation religion remedy repository request requirement resource
response restaurant result return review rhyme right risk road role roof room root row rule run salad salary sample satellite sauce scholarship school
scientist score screen season seat second sector seed sensor sentence server service setting shape share shark shelf shirt shoe shop sibling side sign
signal singer site size skill skin sky snack snake social society sock software soldier solution song sound soup source speaker species spice spider
spoon sport stage stair stamp standard statement station statue step stock stomach store story strategy stream string structure student study style
subject subscription substance suffix suitcase supplement symbol symptom synonym system tablespoon tablet tadpole tail take task tax taxi teacher
teaspoon technique terabyte test text theme theorem theory thread ticket tiger tile timer tip title toe tomato tongue tool topic tourist toy track
tradition train transaction translation treatment trip truck tuple type umbrella university update user utensil vaccine variable vector vegetable
vehicle vein verb version video view virus vitamin volcano vote wage want war warranty wave weapon website week weight whale wheel winner wire wolf
woman word work worker write year`)

// contractions are words written in full.
var contractions = map[string]string{
	"cannot": "can not", "can't": "can not", "won't": "will not", "shan't": "shall not", "ain't": "is not",
	"i'd": "i would", "i'm": "i am", "let's": "let us", "gonna": "going to", "wanna": "want to", "gotta": "have to",
	"whats": "what is", "hows": "how is", "wheres": "where is", "whos": "who is", "dont": "do not", "doesnt": "does not",
	"isnt": "is not", "didnt": "did not", "wasnt": "was not", "wouldnt": "would not", "shouldnt": "should not", "couldnt": "could not",
	"u": "you", "ur": "your", "pls": "please", "plz": "please", "thx": "thanks", "wont": "will not", "cant": "can not",
	"must've": "must have", "it's": "it is", "that's": "that is", "there's": "there is", "here's": "here is",
}

// spellings maps other spellings, synonyms and units to one word.
var spellings = table(`
color|colour|colors|colours
favor|favour
favorite|favourite
behavior|behaviour
flavor|flavour
honor|honour
neighbor|neighbour
labor|labour
harbor|harbour
rumor|rumour
humor|humour
armor|armour
vapor|vapour
center|centre
theater|theatre
fiber|fibre
defense|defence
offense|offence
license|licence
practice|practise
catalog|catalogue
dialog|dialogue
program|programme
gray|grey
tire|tyre
aluminum|aluminium
jewelry|jewellery
traveling|travelling
traveler|traveller
canceled|cancelled
canceling|cancelling
modeling|modelling
labeled|labelled
enrollment|enrolment
fulfill|fulfil
skillful|skilful
analyze|analyse
catalyze|catalyse
paralyze|paralyse
largest|biggest
large|big|huge
larger|bigger
smallest|tiniest
small|tiny
buy|purchase|purchasing|buying
begin|start|commence|starting|beginning
end|finish|conclude
fix|repair|repairing|fixing
movie|film
car|automobile
photo|photograph|picture
doctor|physician
lawyer|attorney
child|kid|children
woman|women
man|men
person|persons
foot|feet
tooth|teeth
mouse|mice
bicycle|bike
phone|telephone
television|tv
email|mail
airplane|aeroplane
trash|garbage|rubbish
couch|sofa
gasoline|petrol
mathematics|math|maths
advertisement|advert|ad
quick|fast|rapid
quickly|rapidly
choose|pick|select
delete|remove|erase
delete|deleting|removing
install|installing
create|creating
change|changing|alter|modify|modifying
build|building
calculate|compute|computing|calculating
founded|established
go|goes
convert|converting
write|writing
reset|resetting
cancel|canceling
cook|cooking
configure|configuring
show|display
author|writer
wrote|authored|written
ill|sick
wealthy|rich
illness|sickness
reply|respond
smart|clever|intelligent
total|overall
nearly|almost
city|cities
nation|country|countries
occur|happen|occurs|happens
need|require|requires
required|needed|necessary
allow|permit|allows|permits
obtain|acquire
without|w/o
0|zero
1|one
2|two
3|three
4|four
5|five
6|six
7|seven
8|eight
9|nine
10|ten
11|eleven
12|twelve|dozen
13|thirteen
14|fourteen
15|fifteen
16|sixteen
17|seventeen
18|eighteen
19|nineteen
20|twenty
30|thirty
40|forty
50|fifty
60|sixty
70|seventy
80|eighty
90|ninety
100|hundred
1000|thousand
#1|first
#3|third
#4|fourth
#5|fifth
#6|sixth
#7|seventh
#8|eighth
#9|ninth
#10|tenth
kilometer|km|kms|kilometre|kilometres|kilometers
meter|metre|metres|meters
centimeter|cm|centimetre|centimetres|centimeters
millimeter|mm|millimetre|millimetres|millimeters
mile|mi
kilogram|kg|kgs|kilo|kilos|kilograms|kilogramme|kilogrammes
gram|g|grams|gramme|grammes
pound|lb|lbs|pounds
ounce|oz|ounces
liter|litre|litres|liters
milliliter|ml|millilitre|millilitres|milliliters
celsius|centigrade
fahrenheit|f
second|sec|secs
millisecond|ms
minute|min|mins|minutes
hour|h|hr|hrs
megabyte|mb
gigabyte|gb
terabyte|tb
kilobyte|kb
percent|%|percentage
in|on|at
to|into
can|could
dollar|$|usd
euro|€|eur
sterling|£|gbp
`)
