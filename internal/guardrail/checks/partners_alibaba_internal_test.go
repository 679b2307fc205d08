package checks

import (
	"net/url"
	"testing"
)

// The example is that of the vendor's documentation of signatures in RPC style.
func TestFormsAreSignedAsAlibabaDocuments(t *testing.T) {
	form := url.Values{
		"Timestamp": {"2016-02-23T12:46:24Z"}, "Format": {"XML"}, "AccessKeyId": {"testid"}, "Action": {"DescribeRegions"}, "SignatureMethod": {"HMAC-SHA1"},
		"SignatureNonce": {"3ee8c1b8-83d3-44af-a94f-4e0ad82fd6cf"}, "Version": {"2014-05-26"}, "SignatureVersion": {"1.0"},
	}
	if got := signForm("GET", form, "testsecret"); got != "OLeaidS1JvxuMvnyHOwuJ+uX5qY=" {
		t.Errorf("signature %s", got)
	}
}
