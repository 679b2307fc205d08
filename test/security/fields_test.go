package security

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// effect says what a writable field of the control plane does. Routes and fields are
// patterns of package path; a field pattern also matches everything below it.
type effect struct {
	routes string // of paths below /v1
	fields string // separated by spaces
	by     string // a test that shows the effect, or ignored, which TestFields… shows
}

const (
	ignored = "ignored" // the response says so in x-gateway-params: see announcements
)

// effects hold every field. The first row that matches counts.
var effects = []effect{
	{"admin/state", "state variables dry_run", "TestASentStateExportsTheSameElsewhere"},
	{"admin/state", "prune", "TestPruningStaysWithinTheSectionsOfTheState"},
	{"admin/organisation/defaults", "input_guardrails output_guardrails", "TestDefaultGuardrailBindsEveryRequestOfItsTenant"},
	{"workspace-exclusions/*", "organisation_id override_existing", "TestExclusionsChangeOnlyWhatIsNamed"},
	{"workspace-exclusions/*", "workspaces workspaces[].workspace_id workspaces[].excluded", "TestExcludedWorkspacesEscapeTheOrganisationsGuardrailsOnly"},
	{"admin/workspaces*", "defaults.input_guardrails defaults.output_guardrails", "TestDefaultGuardrailBindsEveryRequestOfItsTenant"},
	{"admin/workspaces*", "rate_limits", "TestWorkspaceLimitBindsAllItsKeys"},
	{"admin/users*", "rate_limits", "TestUserLimitBindsKeysAndTokens"},
	{"admin/users*", "usage_limits reset_usage", "TestUserBudgetCountsKeysAndTokens"},
	{"api-keys*", "rate_limits", "TestConcurrentRequestsKeepTheRateLimitOfAKey"},
	{"providers*", "rate_limits", "TestLimitOfAProviderFallsBackAndOfAKeyDoesNot"},
	{"virtual-keys*", "rate_limits", "TestLimitOfAProviderFallsBackAndOfAKeyDoesNot"},
	{"integrations/*/workspaces", "global_workspace_access.rate_limits workspaces[].rate_limits", "TestLimitOfAnIntegrationBindsItsProviders"},
	{"api-keys*", "alert_emails", "TestAlertsAreSentOnceForAllGateways"},
	{"guardrails*", "actions.soft_deny_200", "TestSoftDenialsAreCompletions"},
	{"guardrails*", "checks actions", "TestSavedGuardrailRunsAndIsCheckedWhenSaved"},
	{"admin/users*", "workspace_api_key_details", ignored},
	{"api-keys*", "allowed_addresses", "TestKeysAreLimitedToTheirAddresses"},
	{"cache/invalidate", "namespace config api_key_id workspace_id", "TestInvalidatedResponsesAreNotServed"},
	{"*", "egress_policy settings.egress_policy", "TestEgressPolicyBindsEveryRouteAndLeaf"},

	{"admin/organisation", "name", "TestAnOrganisationIsReadWithEveryEffectiveSwitch"},
	{"admin/organisation", "settings.block_inline_config", "TestAnOrganisationMayRequireSavedConfigs"},
	{"admin/organisation", "settings.fail_closed", "TestErrorsOfChecksAreFailuresWithFailClosed"},
	{"admin/organisation", "settings.denied_fields", "TestFieldsThatAreDeniedAreLeftOut"},
	{"admin/organisation", "settings.jwt", "TestATokenOpensModelsAsAKeyDoes"},
	{"admin/organisation", "settings.overridable_sections settings.security_settings", "TestAWorkspaceSetsTheSwitchesItMayOverride"},
	{"admin/organisation", "settings.request_logging settings.request_logging_override", "TestTheNearestWordOnLoggingDecides"},
	{"admin/organisation", "settings.user_api_key_count settings.user_api_key_max_ttl settings.user_api_key_ttl", "TestKeysOfPeopleKeepToTheWorkspacesRules"},
	{"admin/organisation", "settings.directory.group_prefix settings.directory.group_separator settings.directory.organisation_roles",
		"TestNamesOfGroupsGiveRolesInTheOrganisationIfItAsks"},
	{"admin/organisation", "settings.directory.revoke_service_keys", "TestServiceKeysOfADeactivatedUserEndIfTheOrganisationAsks"},
	{"admin/organisation", "settings.directory.users_only settings.directory", "TestInvitesAreRefusedWhereOnlyTheDirectoryAddsUsers"},
	{"scim/tokens", "name", "TestTwoTokensAreValidDuringARotation"},
	{"scim/workspaces", "workspace_id role scim_group_id scim_group_name", "TestMappingsGiveRolesInWorkspaces"},
	{"admin/organisation", "settings", "TestAChangeOfSettingsTouchesWhatItNames"},

	{"admin/users*", "email role workspaces", "TestAnInviteGoesThroughItsStates"},
	{"admin/workspaces*", "users role", "TestARoleCountsAtOnce"},
	{"admin/workspaces*", "force_delete", "TestAWorkspaceThatHoldsSomethingIsNotArchivedByAccident"},
	{"admin/workspaces*", "usage_limits", "TestNodesOfOneDatabaseCountTogether"},
	{"admin/workspaces*", "security_settings", "TestAWorkspaceSetsTheSwitchesItMayOverride"},
	{"admin/workspaces*", "settings", "TestKeysOfPeopleKeepToTheWorkspacesRules"},
	{"admin/workspaces*", "defaults.user_api_key_config", ignored},
	{"admin/workspaces*", "defaults name description icon", "TestAWorkspaceIsReadAsItWasMade"},

	{"api-keys*", "usage_limits", "TestAKeyThatUsedUpItsBudgetReadsOn"},
	{"api-keys*", "reset_usage", "TestAnExhaustedKeyIsFreedByAHigherBudgetOrAReset"},
	{"api-keys*", "defaults.allow_config_override defaults.config_id defaults.metadata", "TestAKeyBringsItsConfigAndMetadata"},
	{"api-keys*", "defaults.request_logging", "TestTheNearestWordOnLoggingDecides"},
	{"api-keys*", "defaults name description", "TestAKeyIsReadAsItWasMadeWithoutItsSecret"},
	{"api-keys*", "expires_at", "TestAKeyExpiresByTheClockAndCanBeGivenMoreTime"},
	{"api-keys*", "key_transition_period_ms rotation_policy.key_transition_period_ms", "TestARotatedKeyHasTwoSecretsForAWhile"},
	{"api-keys*", "rotation_policy", "TestKeysWhoseRotationIsDueAreFound"},
	{"api-keys*", "organisation_id workspace_id", "TestAKeyRefersToNothingOfAnotherWorkspace"},
	{"api-keys*", "scopes", "TestScopesAreOfTheTypeOfKeyThatIsAskedFor"},
	{"api-keys*", "user_id", "TestManagersMakeKeysForOthersAndMembersForThemselves"},

	{"api-keys*", "without_secret", "TestAddingAWorkloadIdentityNeedsTheRightToRotate"},
	{"workload-identities*", "name", "TestListsSelectByName"},
	{"workload-identities*", "slug api_key_id ttl", "TestAWorkloadExchangesItsTokenForAShortKey"},
	{"workload-identities*", "status claims claims.* audience", "TestShortKeysEndWithTheirIdentity"},
	{"workload-identities*", "type issuer jwks_url", "TestFieldsOfWorkloadIdentitiesAreChecked"},
	{"workload-identities*", "jwks", "TestShortKeysOfWorkloadsWorkAndEndOnEveryNode"},
	{"workload-identities*", "trust_domain", "TestSPIFFEAcceptsIDsOfItsTrustDomain"},
	{"api-keys*", "tools", "TestAKeyMayUseNoMoreToolsThanItsMaker"},
	{"admin/workspaces*", "tools", "TestRegistryListsWhatTheCallerMayUse"},
	{"admin/users*", "tools", "TestEveryLimitOfToolsBindsAKey"},
	{"mcp-integrations*", "name description", "TestListsSelectByName"},
	{"mcp-integrations*", "url configurations.token_url configurations.authorization_url", "TestAddressesOfIntegrationsAreChecked"},
	{"mcp-integrations*", "transport command auth_type", "TestCommandsRunOnlyIfTheNodeNamesThem"},
	{"mcp-integrations*", "configurations.custom_headers configurations.passthrough_headers configurations.passthrough_header configurations.scopes configurations.client_id",
		"TestHeadersOfIntegrationsAreChecked"},
	{"mcp-integrations*", "configurations.client_secret", "TestSecretsOfIntegrationsAreNeverShown"},
	{"mcp-integrations*", "configurations.writes configurations.destroys", "TestAServerIsNotAllowedMoreThanItsIntegration"},
	{"mcp-integrations*", "configurations.document", "TestDocumentOfAnAPIIsImported"},
	{"mcp-integrations*", "configurations.document_url", "TestDocumentsAreFetchedThroughTheGuard"},
	{"mcp-integrations*", "configurations.search_above", "TestSearchAboveIsPublished"},
	{"mcp-integrations*", "configurations", "TestSettingsOfIntegrationsReachRequests"},
	{"mcp-integrations*", "slug workspace_id organisation_id status workspaces override_existing_workspace_access global_workspace_access",
		"TestIntegrationsOfOthersAreOutOfReach"},
	{"mcp-*/*/capabilities", "capabilities[].approved capabilities[].digest", "TestAChangedDefinitionIsShownAndApprovedByItsDigest"},
	{"mcp-*/*/capabilities", "capabilities", "TestAServerIsNotAllowedMoreThanItsIntegration"},
	{"agent-*/*/capabilities", "capabilities[].approved capabilities[].digest", "TestCardsAreApprovedAndPriced"},
	{"agent-*/*/capabilities", "capabilities", "TestCardsAreApprovedAndPriced"},
	{"mcp-servers*", "user_access default_user_access", "TestAccessOfUsersIsOfMembersOnly"},
	{"mcp-servers*", "hold_changed", "TestAChangedDefinitionIsShownAndApprovedByItsDigest"},
	{"mcp-servers*", "writes destroys", "TestAServerIsNotAllowedMoreThanItsIntegration"},
	{"mcp-servers*", "status", "TestToolServersArePublished"},
	{"mcp-servers*", "name description", "TestListsSelectByName"},
	{"mcp-servers*", "mcp_integration_id workspace_id", "TestIntegrationsOfOthersAreOutOfReach"},
	{"mcp-*", "slug", "TestSlugsAreUniqueInAWorkspaceAndNeverChange"},
	{"mcp-bundles*", "name description workspace_id", "TestListsSelectByName"},
	{"mcp-bundles*", "search_above", "TestSearchAboveIsPublished"},
	{"mcp-bundles*", "tools", "TestRegistryListsWhatTheCallerMayUse"},
	{"agent-integrations*", "name description", "TestListsSelectByName"},
	{"agent-integrations*", "url configurations.token_url configurations.authorization_url", "TestAddressesOfIntegrationsAreChecked"},
	{"agent-integrations*", "transport command auth_type", "TestSettingsThatAgentsLackAreRefused"},
	{"agent-integrations*", "configurations.custom_headers configurations.passthrough_headers configurations.passthrough_header configurations.scopes configurations.client_id",
		"TestHeadersOfIntegrationsAreChecked"},
	{"agent-integrations*", "configurations.client_secret", "TestSecretsOfIntegrationsAreNeverShown"},
	{"agent-integrations*", "configurations.writes configurations.destroys", "TestSettingsThatAgentsLackAreRefused"},
	{"agent-integrations*", "configurations", "TestSettingsOfIntegrationsReachRequests"},
	{"agent-integrations*", "slug workspace_id organisation_id status workspaces override_existing_workspace_access global_workspace_access",
		"TestIntegrationsOfOthersAreOutOfReach"},
	{"agent-servers*", "user_access default_user_access", "TestAccessOfUsersIsOfMembersOnly"},
	{"agent-servers*", "hold_changed", "TestAChangedDefinitionIsShownAndApprovedByItsDigest"},
	{"agent-servers*", "writes destroys", "TestSettingsThatAgentsLackAreRefused"},
	{"agent-servers*", "status", "TestToolServersArePublished"},
	{"agent-servers*", "name description", "TestListsSelectByName"},
	{"agent-servers*", "agent_integration_id workspace_id", "TestIntegrationsOfOthersAreOutOfReach"},
	{"agent-*", "slug", "TestSlugsAreUniqueInAWorkspaceAndNeverChange"},
	{"agent-servers", "mcp_integration_id", "TestSettingsThatAgentsLackAreRefused"},
	{"mcp-servers", "agent_integration_id", "TestSettingsThatAgentsLackAreRefused"},
	{"auth/consent", "request consent_token decision", "TestAConsentIsForWhatWasShown"},
	{"auth/consent", "workspace_id", "TestMembersConsentForTheirWorkspaces"},
	{"auth/tool-connections", "mcp_server_id workspace_id", "TestKeysWithoutAUserCannotSignIn"},
	{"auth/tool-sign-in*", "link query", "TestOnlyTheUserOfALinkSignsIn"},
	{"auth/tool-sign-in/finish", "callback", "TestAServerDoesNotGetTheCodeOfAnother"},
	{"oauth/clients", "name redirect_uris", "TestAdminsRegisterClients"},
	{"auth/device", "user_code decision", "TestACommandLineSignsInWhenAPersonApproves"},

	{"auth/me", "first_name last_name password password.current password.new", "TestPeopleChangeTheirProfile"},
	{"identity-providers*", "name slug type scopes role token_endpoint_auth_method", "TestFieldsOfAnIdentityProviderTakeEffect"},
	{"identity-providers*", "issuer client_id client_secret", "TestAFirstSignInMakesAMember"},
	{"identity-providers*", "groups_claim", "TestGroupsGiveRoles"},
	{"identity-providers*", "domains", "TestUnknownPeopleStayOutside"},
	{"identity-providers*", "disable_auto_provision_user", "TestAWaitingInviteIsAccepted"},
	{"identity-providers*", "max_session_ttl", "TestASessionIsNoLongerThanItsProviderAllows"},
	{"identity-providers*", "status", "TestSessionsEndWithTheirProvider"},
	{"identity-providers*", "metadata", "TestASAMLSignInMakesAMember"},
	{"identity-providers*", "metadata_url", "TestKeysOfAProviderChangeWithoutAnInterruption"},
	{"identity-providers*", "attributes.groups", "TestGroupsOfSAMLGiveRoles"},
	{"identity-providers*", "allow_signed_response attributes attributes.email attributes.first_name attributes.last_name", "TestAttributesAndSignedResponsesAreSettings"},
	{"identity-providers*", "allow_idp_initiated", "TestSignInsThatBeginAtTheProvider"},
	{"identity-providers*", "finish", "TestKeyOfTheGatewayIsReplacedInTwoSteps"},
	{"domains", "name", "TestADomainBelongsToWhoProvesIt"},
	{"identity-providers*", "strong_authentication", "TestSessionsOfAProviderAreStrongIfItSaysSo"},

	{"auth/*", "cookie cookie.path", "TestATokenGoesIntoACookieIfTheRequestAsks"},
	{"auth/second-factor", "code", "TestASignInIsCompletedWithAOneTimeCodeThatWorksOnce"},
	{"auth/second-factor", "recovery_code", "TestARecoveryCodeWorksOnceHoweverItIsTyped"},
	{"auth/second-factor", "passkey", "TestAPasskeyIsASecondFactor"},
	{"auth/passkey", "passkey", "TestAPasskeySignsInAlone"},
	{"auth/passkeys", "passkey name", "TestAPasskeyIsAddedOnceAndWithinLimits"},
	{"auth/passkeys/*", "name", "TestFactorsOfOthersAreOutOfReach"},
	{"auth/one-time-codes/confirm", "enrolment code", "TestFactorsOfOthersAreOutOfReach"},
	{"auth/owner", "token", "TestAnOwnersLinkReplacesThePasswordOnly"},
	{"auth/confirm", "password", "TestAPasswordConfirmsASessionWithoutFactors"},
	{"auth/confirm", "code recovery_code", "TestAStolenSessionCannotRemoveFactors"},
	{"auth/confirm", "passkey", "TestAPasskeyIsASecondFactor"},
	{"auth/claim", "*", "TestAnInstallationIsClaimedOnce"},
	{"auth/invites/accept", "*", "TestAnInviteIsAcceptedOnce"},
	{"auth/login", "*", "TestAPersonSignsInAndOut"},
	{"auth/password", "*", "TestSomebodyOfAFileSetsTheirPasswordByALinkOnce"},
	{"oauth/introspect", "token", "TestIntrospectionReportsTokens"},
	{"oauth/introspect", "token_type_hint", "TestIntrospectionReportsTheCallersOwnTokens"}, // RFC 7662: a server may ignore it

	{"collections*", "*", "TestACollectionIsPutAwayWhenItIsEmpty"},
	{"configs*", "config", "TestAnotherTextMakesAnotherVersion"},
	{"configs*", "version", "TestVersionsAreReadAndRolledBack"},
	{"guardrails*", "version", "TestVersionsAreReadAndRolledBack"},
	{"api-keys*", "status", "TestAKeyThatUsedUpItsBudgetReadsOn"},
	{"configs*", "status", "TestAnArchivedConfigIsGone"},
	{"configs*", "isDefault name workspace_id", "TestAConfigIsReadAsItWasSaved"},
	{"webhook_endpoints*", "format", "TestChannelsReceiveMessagesWithNames"},
	{"webhook_endpoints*", "event_types", "TestAnEventIsDeliveredOnceToEachEndpointThatReceivesIt"},
	{"webhook_endpoints*", "status", "TestDeliveriesToADisabledEndpointFail"},
	{"webhook_endpoints*", "url", "TestAnEventIsSentOnceAndVerified"},
	{"webhook_endpoints*", "workspace_id", "TestAWorkspaceHasALimitedNumberOfEndpoints"},
	{"webhook_endpoints*", "name description", "TestAnEndpointHasTheShapeOfOpenAI"},
	{"webhook_endpoints/*/rotate_secret", "*", "TestBothSecretsSignDuringARotation"},
	{"webhook_endpoints/*/test", "*", "TestASampleIsSentOnDemand"},
	{"deployments*", "workspaces allow_all_workspaces status", "TestAGatewayOfADeploymentServesOnlyItsWorkspaces"},
	{"deployments*", "auth_settings config name slug type", "TestADeploymentIsReadAsItWasMade"},
	{"feedback*", "*", "TestFeedbackIsGivenOfATraceAndChanged"},
	{"guardrails/test", "*", "TestTestsOfGuardrailsAreBounded"},
	{"integrations/test", "*", "TestStoredIntegrationIsTriedWithItsCredential"},
	{"guardrails/*/results/*", "label", "TestShadowGuardrailIsTriedLabelledAndEnforced"},
	{"guardrail-modules", "name slug organisation_id workspace_id code", "TestStoredModulesRunForTheirTenantOnly"},
	{"guardrail-credentials*", "secret_mappings", "TestASecretReferenceFillsAPartnersCredential"},
	{"guardrail-credentials*", "*", "TestStoredCredentialsReachTheirPartnerOnly"},
	{"guardrails*", "name organisation_id workspace_id", "TestAGuardrailOfTheOrganisationIsSeenByAllAndChangedByFew"},

	{"integrations/*/models", "allow_all_models models[].enabled", "TestAModelThatIsNotEnabledIsRefusedBeforeAnythingIsSent"},
	{"integrations/*/models", "models[].pricing_config", "TestNegotiatedPricesComeBeforeTheBook"},
	{"integrations/*/models", "models[].base_model_slug models[].is_finetune models[].is_custom", "TestAFineTunedModelHasThePriceAndQuirksOfItsBase"},
	{"integrations/*/models", "models[].configurations", "TestTheModelChoosesTheDeploymentOfAnIntegration"},
	{"integrations/*/models", "models", "TestModelsAreEnabledAddedAndRemoved"},
	{"integrations/*/workspaces", "workspaces[].reset_usage", "TestAWorkspaceThatIsExhaustedComesBack"},
	{"integrations/*/workspaces", "workspaces[].usage_limits global_workspace_access.usage_limits", "TestNodesOfOneDatabaseCountTogether"},
	{"integrations/*/workspaces", "override_existing_workspace_access", "TestTheGlobalSettingIsForAllWorkspacesAndThoseToCome"},
	{"integrations/*/workspaces", "*", "TestWorkspacesAreGivenAnIntegrationInBulk"},
	{"integrations*", "pricing_adjustments", "TestTermsAreReadFromWhatIsStored"},
	{"integrations*", "secret_mappings", "TestAFieldIsFilledByOneSecretReference"},
	{"integrations*", "configurations", "TestIntegrationSettingsOfHostsAndHeadersApply"},
	{"integrations*", "create_default_provider default_provider_slug", "TestCreatingMakesADefaultProviderUnlessToldNotTo"},
	{"integrations*", "ai_provider_id description key name slug tags workspace_id", "TestAnIntegrationIsReadAsItWasStoredWithItsSecretsMasked"},

	{"labels*", "*", "TestALabelLeadsToOneVersion"},
	{"policies/rate-limits*", "*", "TestPolicyCountsEachGroupApart"},
	{"policies/usage-limits*", "*", "TestBudgetOfAPolicySurvivesARestart"},
	{"logs", "*", "TestPostedEntriesAreInTheLog"},
	{"logs/exports*", "filters", "TestFiltersChooseRows"},
	{"logs/exports*", "format requested_data workspace_id", "TestAnExportGoesFromDraftToFile"},
	{"logs/export-schedules*", "*", "TestSchedulesExportEachPeriodOnce"},
	{"prompts/partials*", "*", "TestPartialsHaveVersionsToo"},
	{"prompts/*/makeDefault", "version", "TestAVersionIsPublishedByNameAlone"},
	{"prompts/*/versions/*", "label_id", "TestALabelLeadsToOneVersion"},
	{"prompts*", "patch", "TestAPatchFillsWhatIsMissingFromTheNewestVersion"},
	{"prompts*", "*", "TestAPromptIsReadAsItWasSaved"},
	{"providers*", "usage_limits expires_at", "TestAProviderEntryThatIsUsedUpOrOverIsRefused"},
	{"providers*", "reset_usage", "TestAnExhaustedOrExpiredProviderComesBack"},
	{"providers*", "integration_id name note slug tags workspace_id", "TestAProviderIsReadAsItWasMade"},
	{"secret-references*", "allowed_providers allowed_hosts", "TestReferencesAreChecked"},
	{"secret-references*", "*", "TestAReferenceIsReadAsItWasMadeWithMasks"},
	{"virtual-keys*", "*", "TestAVirtualKeyIsChangedFieldByField"},
}

// TestEveryWritableFieldHasAnEffectOrIsRefused walks the OpenAPI document: a field of
// a request body that no row of effects has fails, and so does a row whose test is
// not there.
func TestEveryWritableFieldHasAnEffectOrIsRefused(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	fields := writableFields(t, g.do(t, "GET", "/openapi.json", "").ok(t).body)
	if len(fields) < 500 {
		t.Fatalf("the OpenAPI document has %d writable fields, want all of them", len(fields))
	}
	known, used := testNames(t), make([]bool, len(effects))
	attack(t, "escalation", "no field of the control plane is accepted without effect", func(t *testing.T) {
		for _, f := range fields {
			i := slices.IndexFunc(effects, func(e effect) bool { return e.holds(f) })
			if i < 0 {
				t.Errorf("%s %s: no row of effects has the field %s; show what it does, or refuse it", f.method, f.route, f.field)
				continue
			}
			used[i] = true
		}
	})
	for i, e := range effects {
		if !used[i] {
			t.Errorf("no field is left for the row %q %q", e.routes, e.fields)
		}
		if e.by != ignored && !known[e.by] {
			t.Errorf("the row %q %q names the test %s, which does not exist", e.routes, e.fields, e.by)
		}
	}
}

// writableField is a field of a request body of the control plane.
type writableField struct{ method, route, field string }

func (e *effect) holds(f writableField) bool {
	route := false
	for p := f.route; p != "" && p != "." && !route; p = path.Dir(p) {
		route, _ = path.Match(e.routes, p)
		route = route || e.routes == "*" || strings.HasSuffix(e.routes, "*") && strings.Count(e.routes, "*") == 1 && strings.HasPrefix(f.route, strings.TrimSuffix(e.routes, "*"))
		if !strings.HasSuffix(e.routes, "*") {
			break
		}
	}
	if !route {
		return false
	}
	for pattern := range strings.FieldsSeq(e.fields) {
		for name := f.field; name != ""; {
			if ok, _ := path.Match(strings.ReplaceAll(pattern, "[]", `\[\]`), name); ok {
				return true
			}
			i := strings.LastIndexAny(name, ".[")
			name = name[:max(i, 0)]
		}
	}
	return false
}

// writableFields lists the fields of all request bodies of an OpenAPI document. An
// element of an array is called [].
func writableFields(t *testing.T, document []byte) (list []writableField) {
	t.Helper()
	type schema map[string]any
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(f writableField, s schema, depth int)
	walk = func(f writableField, s schema, depth int) {
		if depth > 12 {
			t.Fatalf("%v nests too deeply", f)
		}
		if ref, ok := s["$ref"].(string); ok {
			walk(f, doc.Components.Schemas[path.Base(ref)], depth+1)
			return
		}
		for _, word := range []string{"oneOf", "anyOf", "allOf"} {
			options, _ := s[word].([]any)
			for _, option := range options {
				walk(f, option.(map[string]any), depth+1)
			}
		}
		if items, ok := s["items"].(map[string]any); ok {
			walk(writableField{f.method, f.route, f.field + "[]"}, items, depth+1)
		}
		properties, _ := s["properties"].(map[string]any)
		for name, of := range properties {
			of := of.(map[string]any)
			if of["readOnly"] == true {
				continue
			}
			next := writableField{f.method, f.route, strings.TrimPrefix(f.field+"."+name, ".")}
			list = append(list, next)
			walk(next, of, depth+1)
		}
	}
	for route, methods := range doc.Paths {
		for method, raw := range methods {
			var operation struct {
				RequestBody struct {
					Content map[string]struct{ Schema schema }
				} `json:"requestBody"`
			}
			if json.Unmarshal(raw, &operation) != nil || method == "get" {
				continue
			}
			for _, content := range operation.RequestBody.Content {
				walk(writableField{strings.ToUpper(method), parameter.ReplaceAllString(strings.TrimPrefix(route, "/v1/"), "x"), ""}, content.Schema, 0)
			}
		}
	}
	return list
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// testNames are the names of all tests of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names, declared := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestFieldsWithoutEffectAreNamed shows that a response says which fields nothing
// acts on.
func TestFieldsWithoutEffectAreNamed(t *testing.T) {
	t.Parallel()
	g, p := launch(t, options{}), newProvider(t, nil)
	integration := g.create(t, rootKey, "/v1/integrations", `{"name":"main","ai_provider_id":"openai","key":"sk-0","create_default_provider":false}`, "id")
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["models.list"],"alert_emails":["a@example.com"]}`, ""},
		{"POST", "/admin/users/invites", `{"email":"keyed@example.com","role":"member","workspaces":[{"id":"default","role":"member"}],"workspace_api_key_details":{"scopes":["models.list"]}}`, "workspace_api_key_details;ignored"},
		{"PUT", "/admin/workspaces/default", `{"settings":{"debug_log":true}}`, "settings.debug_log;ignored"},
		{"PUT", "/workspaces/default", `{"settings":{"user_key_metadata":{"a":"b"},"user_key_metadata_override":true}}`, "settings.user_key_metadata;ignored, settings.user_key_metadata_override;ignored"},
		{"PUT", "/workspaces/default", `{"defaults":{"user_api_key_config":{"a":"b"}}}`, "defaults.user_api_key_config;ignored"},
		{"PUT", "/integrations/" + integration + "/models", `{"models":[{"slug":"gpt-4.1","enabled":true,"pricing_config":{"type":"static","pay_as_you_go":{"request_token":{"price":1}},"fixed_cost":{"price":1}}}]}`, "models.pricing_config.fixed_cost;ignored"},
	} {
		attack(t, "escalation", c.method+" "+strings.ReplaceAll(c.path, integration, "{integration}")+" says "+c.want, func(t *testing.T) {
			if got := g.as(t, rootKey, c.method, "/v1"+c.path, c.body).ok(t).header.Get("x-gateway-params"); got != c.want {
				t.Errorf("x-gateway-params = %q, want %q", got, c.want)
			}
		})
	}
	for _, name := range []string{"x-gateway-cache-force-refresh", "x-gateway-cache-namespace"} {
		attack(t, "escalation", "request header "+name+" is announced", func(t *testing.T) {
			if got := g.do(t, "POST", completePath, chatBody, toCustomHost(rootKey, p, name, "true")...).ok(t).header.Get("x-gateway-params"); !strings.Contains(got, name+";ignored") {
				t.Errorf("x-gateway-params = %q, want one that names %s", got, name)
			}
		})
	}
	attack(t, "escalation", "a saved guardrail in a config lets nothing through unchecked", func(t *testing.T) {
		p.reset()
		config := `{"provider":"openai-compatible","custom_host":"` + p.url + `","api_key":"sk-x","input_guardrails":["pg-1"]}`
		g.do(t, "POST", completePath, chatBody, "x-gateway-api-key", rootKey, "x-gateway-config", config).refused(t, http.StatusNotFound, "pg-1")
		if len(p.seen()) != 0 {
			t.Error("the request was sent unchecked")
		}
	})
}
