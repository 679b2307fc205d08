package dataplane

import (
	"net/http"
	"strings"
	"testing"
)

func TestCoheresLibraryIsKnownByItsNames(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  bool
	}{
		{[]string{"cohere"}, true}, {[]string{"cohere-ai"}, true}, {[]string{"another"}, false}, {[]string{"-ai"}, false},
		{[]string{"cohere", "cohere"}, false}, {nil, false},
	} {
		if got := isCohereClient(http.Header{"X-Fern-Sdk-Name": tt.names}); got != tt.want {
			t.Errorf("a library with the names %q is Cohere's: %t, want %t", tt.names, got, tt.want)
		}
	}
}

// Only actions and paths of administration need the scope: those of models pass.
func TestAdministrationOfProvidersIsKnown(t *testing.T) {
	for query, want := range map[string]bool{
		"Action=CreateAccessKey": true, "a=b;action=CreateAPIKey": true, "%41ction=AttachRolePolicy": true, "Action=GetSessionToken": true,
		"Action=CVProcess&Version=2022-08-31": false, "Action=ChatCompletions": false, "Action=CountTokens": false, "Action=KeywordsExtraction": false, "Transaction=CreateUser": false, "": false,
	} {
		if got := administers(query, http.Header{}); got != want {
			t.Errorf("administers(%q) = %t, want %t", query, got, want)
		}
		action, name := strings.CutPrefix(query, "Action=")
		if got := administers("", http.Header{"X-Tc-Action": {action}}); name && got != want {
			t.Errorf("the header %q = %t, want %t", action, got, want)
		}
	}
	for path, want := range map[string]bool{
		"/v1/projects/p/locations/l/publishers/google/models/m:generateContent": false, "/v1/projects/p:setIamPolicy": true, "/v1/projects/p/members": true,
		"/v1/users": true, "/v1/userspace": false, "/v1/user/subscription": false, "/v1/models/users-guide": false, "/v1/fine_tuning/jobs": false, "/v1/batches": false,
		"/v1/accounts/acme/models": false, "/v1/accounts/acme/users": true, "/v1/certificates;a=b": true, "/v1/tokens/count": false, "/v1beta/tunedModels/m": false,
	} {
		if got := issuesCredentials("POST", path); got != want {
			t.Errorf("issuesCredentials(%q) = %t, want %t", path, got, want)
		}
	}
}
