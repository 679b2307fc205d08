package documents_test

import (
	"testing"
)

// TestLimits runs the commands of the page of limits.
func TestLimits(t *testing.T) {
	p := open(t, "limits.md")
	m := start(t, "a gateway")
	m.serve(t, "")
	m.run(t, `
export MODELGATE_URL=https://gateway.example.com MODELGATE_BOOTSTRAP_KEY=$(cat admin.key)
modelgate keys create ci --workspace default --scopes completions.write
echo 'members: [{email: ann@example.com, role: member}]' >people.yaml
modelgate apply people.yaml --data /var/lib/modelgate
echo sk-1 | modelgate integrations create OpenAI --slug openai --ai-provider openai --credential @-
modelgate integrations grant openai --workspaces default --create-default-provider
modelgate providers create "My OpenAI" --workspace default --integration openai --slug my-openai
modelgate usage-policies create Team --workspace default --conditions key=api_key,value=x --group-by key=metadata._user --type cost --credit-limit 100
`)
	for _, s := range p.sections {
		if list := s.scripts(); len(list) > 0 && exempted(p.name, list[0]) != nil {
			s.ran = len(list)
		} else if len(list) > 0 {
			m.do(t, p, s.heading)
		}
	}
}
