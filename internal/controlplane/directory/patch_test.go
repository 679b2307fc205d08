package directory_test

import (
	"strings"
	"testing"

	"modelgate/internal/controlplane/directory"
)

func TestOperationsChangeUsers(t *testing.T) {
	const before = `{"userName":"ann","title":"Dr","name":{"givenName":"Ann","familyName":"Doe"},"emails":[{"value":"a@w.example","type":"work","primary":true},{"value":"a@h.example","type":"home"}]}`
	onBoth(t, directory.Routes{}, func(b *bench) {
		id := b.scim(201, "POST", "/Users", before)["id"].(string)
		for _, tt := range []struct{ operations, select_, want string }{
			{`{"op":"ADD","path":"Title","value":"Prof"}`, "title", `{"title":"Prof"}`},
			{`{"op":"add","value":{"TITLE":"Prof","unknown":1,"id":"x","groups":[]}}`, "title", `{"title":"Prof"}`},
			{`{"op":"replace","path":"title","value":null}`, "title", `{}`},
			{`{"op":"remove","path":"title"}`, "title", `{}`},
			{`{"op":"remove","path":"nickName"}`, "title", `{"title":"Dr"}`},
			{`{"op":"replace","path":"name","value":{"givenName":"Anna"}}`, "name", `{"name":{"familyName":"Doe","givenName":"Anna"}}`},
			{`{"op":"remove","path":"name.givenName"}`, "name", `{"name":{"familyName":"Doe"}}`},
			{`{"op":"remove","path":"name"}`, "name", `{}`},
			{`{"op":"add","path":"emails","value":[{"value":"a@h.example","type":"home"}]}`, "emails.value", `{"emails":[{"value":"a@w.example"},{"value":"a@h.example"}]}`},
			{`{"op":"add","path":"emails","value":{"value":"n@o.example","primary":true}}`, "emails.value,emails.primary",
				`{"emails":[{"primary":false,"value":"a@w.example"},{"value":"a@h.example"},{"primary":true,"value":"n@o.example"}]}`},
			{`{"op":"replace","path":"emails","value":"n@o.example"}`, "emails", `{"emails":[{"value":"n@o.example"}]}`},
			{`{"op":"replace","path":"emails[type eq \"home\"]","value":{"value":"h@o.example"}}`, "emails.value", `{"emails":[{"value":"a@w.example"},{"value":"h@o.example"}]}`},
			{`{"op":"remove","path":"emails[type eq \"work\" or value ew \"h.example\"]"}`, "emails", `{}`},
			{`{"op":"remove","path":"emails[type eq \"work\"].primary"}`, "emails.primary", `{}`},
			{`{"op":"remove","path":"emails","value":[{"value":"a@h.example"}]}`, "emails.value", `{"emails":[{"value":"a@w.example"}]}`},
			{`{"op":"add","path":"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User","value":{"department":"R"}}`,
				"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User", `{"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User":{"department":"R"}}`},
			{`{"op":"replace","path":"urn:ietf:params:scim:schemas:core:2.0:User:title","value":"X"}`, "title", `{"title":"X"}`},
			{`{"op":"replace","path":"title","value":"A"},{"op":"replace","path":"title","value":"B"}`, "title", `{"title":"B"}`},
		} {
			out := b.scim(200, "PATCH", "/Users/"+id+"?attributes="+tt.select_, `{"Operations":[`+tt.operations+`]}`)
			delete(out, "id")
			delete(out, "schemas")
			if got := toJSON(out); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.operations, got, tt.want)
			}
			b.scim(200, "PUT", "/Users/"+id, before)
		}
	})
}

func TestInvalidOperationsChangeNothing(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann")
		staff := b.group("Staff", ann)
		for _, tt := range []struct{ path, operations, kind string }{
			{"/Users/" + ann, `{"op":"remove"}`, "noTarget"}, {"/Users/" + ann, `{"op":"move","path":"title"}`, "invalidSyntax"},
			{"/Users/" + ann, `{"op":"add","path":"unknown","value":1}`, "invalidPath"}, {"/Users/" + ann, `{"op":"add","path":"title.x","value":1}`, "invalidPath"},
			{"/Users/" + ann, `{"op":"add","path":"emails[type eq","value":1}`, "invalidFilter"}, {"/Users/" + ann, `{"op":"add","path":"title[a eq 1]","value":1}`, "invalidPath"},
			{"/Users/" + ann, `{"op":"add","path":7,"value":1}`, "invalidPath"}, {"/Users/" + ann, `{"op":"add","path":"title"}`, "invalidValue"},
			{"/Users/" + ann, `{"op":"add","value":"x"}`, "invalidValue"}, {"/Users/" + ann, `{"op":"add","path":"title","value":{"a":1}}`, "invalidValue"},
			{"/Users/" + ann, `{"op":"replace","path":"active","value":"maybe"}`, "invalidValue"}, {"/Users/" + ann, `{"op":"replace","path":"id","value":"x"}`, "mutability"},
			{"/Users/" + ann, `{"op":"replace","path":"meta.version","value":"x"}`, "mutability"}, {"/Users/" + ann, `{"op":"add","path":"groups","value":[]}`, "mutability"},
			{"/Users/" + ann, `{"op":"remove","path":"userName"}`, "mutability"}, {"/Users/" + ann, `{"op":"remove","path":"active"}`, "mutability"},
			{"/Users/" + ann, `{"op":"replace","path":"userName","value":""}`, "invalidValue"},
			{"/Users/" + ann, `{"op":"replace","path":"emails[type co \"x\"].value","value":"a"}`, "noTarget"},
			{"/Groups/" + staff, `{"op":"add","path":"members","value":[7]}`, "invalidValue"},
			{"/Groups/" + staff, `{"op":"remove","path":"members[display eq \"a\"]"}`, "invalidFilter"}, {"/Groups/" + staff, `{"op":"remove","path":"displayName"}`, "mutability"},
			{"/Groups/" + staff, `{"op":"replace","path":"members[value eq \"a\"].type","value":"a"}`, "mutability"},
		} {
			valid := `{"op":"replace","path":"externalId","value":"changed"},`
			out := b.scim(400, "PATCH", tt.path, `{"Operations":[`+valid+tt.operations+`]}`)
			if out["scimType"] != tt.kind {
				t.Errorf("%s: %v, want %s", tt.operations, out, tt.kind)
			}
			if o := b.scim(200, "GET", tt.path, ""); o["externalId"] != nil || !strings.Contains(toJSON(o), `W/\"1\"`) {
				t.Errorf("%s: part of it was stored: %v", tt.operations, o)
			}
		}
		for _, body := range []string{`{}`, `{"Operations":[]}`, `{"Operations":{}}`, `{"Operations":[7]}`, `{"schemas":["urn:other"],"Operations":[{"op":"add","value":{}}]}`, `[]`} {
			b.scim(400, "PATCH", "/Users/"+ann, body)
		}
	})
}

func TestOperationsChangeMembers(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann, ben, cat := b.user("ann"), b.user("ben"), b.user("cat")
		staff := b.group("Staff", ann)
		names := strings.NewReplacer(ann, "ann", ben, "ben", cat, "cat")
		for _, tt := range []struct{ operations, want string }{
			{`{"op":"add","path":"members","value":["` + ben + `"]}`, "ann ben"},
			{`{"op":"add","path":"members","value":[{"value":"` + ben + `","$ref":null}]}`, "ann ben"},
			{`{"op":"add","value":{"members":[{"value":"` + cat + `"}],"id":"x"}}`, "ann ben cat"},
			{`{"op":"replace","value":{"members":null,"displayName":"Staff"}}`, "ann ben cat"},
			{`{"op":"remove","path":"members[value eq \"` + ann + `\" or value eq \"` + ben + `\"]"}`, "cat"},
			{`{"op":"replace","path":"urn:ietf:params:scim:schemas:core:2.0:Group:members","value":{"value":"` + ann + `"}}`, "ann"},
			{`{"op":"remove","path":"members","value":[{"value":"none"}]}`, "ann"},
			{`{"op":"add","path":"members","value":[{"value":"none"}]}`, "ann"},
			{`{"op":"add","path":"members","value":["` + cat + `"]},{"op":"remove","path":"members","value":["` + ann + `"]}`, "cat"},
			{`{"op":"remove","path":"members"}`, ""},
		} {
			b.scim(200, "PATCH", "/Groups/"+staff, `{"Operations":[`+tt.operations+`]}`)
			g := b.scim(200, "GET", "/Groups/"+staff+"?attributes=members.value", "")
			var got []string
			members, _ := g["members"].([]any)
			for _, m := range members {
				got = append(got, names.Replace(m.(map[string]any)["value"].(string)))
			}
			if strings.Join(sorted(got), " ") != tt.want {
				t.Errorf("%s: %v, want %s", names.Replace(tt.operations), got, tt.want)
			}
		}
	})
}
