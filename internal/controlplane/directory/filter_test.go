package directory_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/directory"
)

// find returns the names of the users that a filter selects, in order.
func (b *bench) find(filter string) string {
	b.Helper()
	list := b.scim(200, "GET", "/Users?filter="+url.QueryEscape(filter), "")
	var names []string
	for _, e := range list["Resources"].([]any) {
		name, _ := e.(map[string]any)["userName"].(string)
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// addPeople adds users to be found, a second apart.
func (b *bench) addPeople() {
	b.Helper()
	for _, body := range []string{
		`{"userName":"Ann","externalId":"A1","displayName":"Ann O'Neil","name":{"familyName":"O'Neil"},"emails":[{"value":"ann@work.example","type":"work","primary":true},{"value":"ann@home.example","type":"home"}]}`,
		`{"userName":"ben","externalId":"a1","displayName":"50%_ben","active":false}`,
		`{"userName":"çağ","displayName":"Çağ","emails":[{"value":"cag@work.example","type":"home"}]}`,
	} {
		b.scim(201, "POST", "/Users", body)
		b.clock = b.clock.Add(time.Second)
	}
}

func TestFiltersSelectUsers(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		b.addPeople()
		for filter, want := range map[string]string{
			`userName eq "ANN"`: "Ann", `USERNAME EQ "ann"`: "Ann", `userName ne "ann"`: "ben çağ", `userName sw "a"`: "Ann", `userName ew "N"`: "Ann ben",
			`userName co "n"`: "Ann ben", `userName co ""`: "Ann ben çağ", `userName ew "benn"`: "", `userName sw "ÇA"`: "çağ", `userName ew "ağ"`: "çağ",
			`externalId eq "A1"`: "Ann", `externalId pr`: "Ann ben", `externalId eq null`: "çağ", `not (externalId pr)`: "çağ",
			`active eq true`: "Ann çağ", `active eq "False"`: "ben", `active ne true`: "ben", `active pr`: "Ann ben çağ",
			`displayName co "%"`: "ben", `displayName co "_"`: "ben", `displayName sw "50%_"`: "ben", `displayName eq "ann o'neil"`: "Ann", `name.familyName co "'"`: "Ann",
			`displayName eq "x' OR '1'='1"`: "", `displayName co "\\"`: "", `displayName eq "a\"b"`: "",
			`emails eq "ANN@home.example"`: "Ann", `emails.value ew "work.example"`: "Ann çağ", `emails[type eq "work" and value co "@work"]`: "Ann",
			`emails[type eq "work"].value eq "cag@work.example"`: "", `emails[primary eq true]`: "Ann", `emails.value ne "ann@home.example"`: "ben çağ", `emails pr`: "Ann çağ",
			`not (emails[type eq "home"])`: "ben", `emails[not (type eq "work")]`: "Ann çağ",
			`meta.created gt "2026-05-01T12:00:00Z"`: "ben çağ", `meta.created ge "2026-05-01T14:00:00.000+02:00"`: "Ann ben çağ", `meta.lastModified lt "2026-05-01T12:00:01Z"`: "Ann",
			`meta.created le "2026-05-01T12:00:01Z" and active eq true`: "Ann",
			`userName eq "ann" or userName eq "ben" and active eq true`: "Ann", `(userName eq "ann" or userName eq "ben") and active eq false`: "ben",
			`urn:ietf:params:scim:schemas:core:2.0:User:userName eq "ann"`: "Ann", `id eq "none"`: "", `groups eq "none"`: "",
		} {
			if got := b.find(filter); got != want {
				t.Errorf("%s: %q, want %q", filter, got, want)
			}
		}
	})
}

func TestInvalidFiltersAreRefused(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		for _, filter := range []string{
			`userName`, `userName eq`, `userName eq ann`, `eq "a"`, `userName eq "a`, `userName xx "a"`, `userName eq "a" and`, `(userName eq "a"`, `userName eq "a")`,
			`password eq "a"`, `title eq "a"`, `userName gt "a"`, `active gt true`, `active eq 1`, `userName eq 7`, `meta.created eq "yesterday"`, `meta.created co "2026-05-01T12:00:00Z"`,
			`emails[type eq "work"`, `emails[type]`, `emails[emails[type eq "a"]]`, `userName[type eq "a"]`, `emails[unknown eq "a"]`, `not userName eq "a"`, `userName eq "a\u0000"`,
			strings.Repeat("(", 20) + `userName eq "a"` + strings.Repeat(")", 20), strings.Repeat(`userName eq "a" or `, 80) + `userName eq "a"`, `userName eq "` + strings.Repeat("a", 5000) + `"`,
			`userName eq {"a":1}`, `userName eq ["a"]`, `userName; DROP TABLE users`,
		} {
			out := b.scim(400, "GET", "/Users?filter="+url.QueryEscape(filter), "")
			if out["scimType"] != "invalidFilter" {
				t.Errorf("%.60s: %v", filter, out)
			}
		}
		for _, path := range []string{"/Schemas", "/ResourceTypes"} {
			b.scim(403, "GET", path+"?filter="+url.QueryEscape(`id eq "a"`), "")
		}
	})
}

func TestPagesAreStable(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		b.addPeople()
		for query, want := range map[string][4]any{
			"startIndex=1&count=2":  {3.0, 1.0, 2.0, "Ann ben"},
			"startIndex=3&count=2":  {3.0, 3.0, 1.0, "çağ"},
			"startIndex=0&count=1":  {3.0, 1.0, 1.0, "Ann"},
			"startIndex=-5&count=1": {3.0, 1.0, 1.0, "Ann"},
			"startIndex=9":          {3.0, 9.0, 0.0, ""},
			"count=0":               {3.0, 1.0, 0.0, ""},
			"count=-1":              {3.0, 1.0, 0.0, ""},
			"count=100000":          {3.0, 1.0, 3.0, "Ann ben çağ"},
			"":                      {3.0, 1.0, 3.0, "Ann ben çağ"},
		} {
			out := b.scim(200, "GET", "/Users?"+query, "")
			var names []string
			for _, e := range out["Resources"].([]any) {
				names = append(names, e.(map[string]any)["userName"].(string))
			}
			if got := [4]any{out["totalResults"], out["startIndex"], out["itemsPerPage"], strings.Join(names, " ")}; got != want {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
		b.scim(400, "GET", "/Users?count=many", "")
		// What comes later is at the end.
		first := b.scim(200, "GET", "/Users?count=2", "")
		b.user("dan")
		if again := b.scim(200, "GET", "/Users?count=2", ""); fmt.Sprint(again["Resources"]) != fmt.Sprint(first["Resources"]) {
			t.Errorf("the page changed from %v to %v", first, again)
		}
	})
}
