package scim

// text, flag and link return attributes of these kinds.
func text(name, description string) *Attribute {
	return &Attribute{Name: name, Kind: String, Description: description}
}

func flag(name, description string) *Attribute {
	return &Attribute{Name: name, Kind: Boolean, Description: description}
}

// values returns a list of values with a type, one of which may be primary.
func values(name, description string, kinds ...string) *Attribute {
	kind := text("type", "What the value is for")
	kind.Values = kinds
	return &Attribute{Name: name, Kind: Complex, Many: true, Description: description, Sub: []*Attribute{
		text("value", "The value"), text("display", "The value as people read it"), kind, flag("primary", "Whether the value is preferred"),
	}}
}

// NewUserType returns the type of users. If groups may be written, users name the groups that
// they are members of; otherwise groups are read-only.
func NewUserType(groupsWritable bool) *Type {
	name := text("userName", "Name that identifies the user in the organisation, in any letter case")
	name.Required, name.Unique = true, true
	external := text("externalId", "Identifier of the user in the directory")
	external.CaseExact = true
	active := flag("active", "Whether the user may sign in and use keys; true if it is left out")
	active.Required = true // it cannot be removed
	password := text("password", "Not stored")
	password.Hidden = true
	emails := values("emails", "E-mail addresses", "work", "home", "other")
	return &Type{
		Name: "User", Endpoint: "/Users", Description: "Users of the organisation",
		Schema: &Schema{URN: UserURN, Name: "User", Description: "User", Attributes: []*Attribute{
			name, external, fullName(), text("displayName", "Name as people read it"), text("nickName", "Informal name"),
			{Name: "profileUrl", Kind: Reference, Refers: []string{"external"}, Description: "Address of a page about the user", CaseExact: true},
			text("title", "Job title"), text("userType", "Relation to the organisation, such as Employee"),
			text("preferredLanguage", "Preferred language, such as en-US"), text("locale", "Region, such as en-US"),
			text("timezone", "Time zone, such as Europe/Berlin"), active, password, emails,
			values("phoneNumbers", "Phone numbers", "work", "home", "mobile", "fax", "pager", "other"),
			values("ims", "Addresses of instant messengers"), values("photos", "Addresses of pictures", "photo", "thumbnail"),
			addresses(), userGroups(groupsWritable), values("entitlements", "Entitlements in the directory; they grant nothing"),
			values("roles", "Roles in the directory; they grant nothing"), hiddenList("x509Certificates"),
		}},
		Extensions: []*Schema{enterprise()},
	}
}

func hiddenList(name string) *Attribute {
	return &Attribute{Name: name, Kind: Complex, Many: true, Hidden: true, Sub: []*Attribute{text("value", "")}}
}

func fullName() *Attribute {
	return &Attribute{Name: "name", Kind: Complex, Description: "Parts of the name", Sub: []*Attribute{
		text("formatted", "Complete name"), text("familyName", "Family name"), text("givenName", "Given name"),
		text("middleName", "Middle names"), text("honorificPrefix", "Titles before the name"), text("honorificSuffix", "Titles after the name"),
	}}
}

func addresses() *Attribute {
	kind := text("type", "What the address is for")
	kind.Values = []string{"work", "home", "other"}
	return &Attribute{Name: "addresses", Kind: Complex, Many: true, Description: "Postal addresses", Sub: []*Attribute{
		text("formatted", "Complete address"), text("streetAddress", "Street and number"), text("locality", "City"),
		text("region", "State or region"), text("postalCode", "Postal code"), text("country", "Country, two letters"), kind,
		flag("primary", "Whether the address is preferred"),
	}}
}

func userGroups(writable bool) *Attribute {
	value := text("value", "Id of the group")
	value.CaseExact = true
	a := &Attribute{Name: "groups", Kind: Complex, Many: true, ReadOnly: !writable, Description: "Groups that the user is a member of",
		Sub: []*Attribute{value, text("display", "Name of the group"), {Name: "$ref", Kind: Reference, Refers: []string{"Group"},
			Description: "Address of the group", CaseExact: true}, text("type", "Always direct")}}
	for _, s := range a.Sub {
		s.ReadOnly = !writable || s.Name != "value"
	}
	return a
}

func enterprise() *Schema {
	manager := &Attribute{Name: "manager", Kind: Complex, Description: "Manager of the user", Sub: []*Attribute{
		{Name: "value", Kind: String, Description: "Identifier of the manager", CaseExact: true},
		{Name: "$ref", Kind: Reference, Refers: []string{"User"}, Description: "Address of the manager", CaseExact: true},
		text("displayName", "Name of the manager"),
	}}
	return &Schema{URN: EnterpriseURN, Name: "EnterpriseUser", Description: "Enterprise user", Attributes: []*Attribute{
		text("employeeNumber", "Number of the employee"), text("costCenter", "Cost centre"), text("organization", "Organisation"),
		text("division", "Division"), text("department", "Department"), manager,
	}}
}

// NewGroupType returns the type of groups.
func NewGroupType() *Type {
	name := text("displayName", "Name of the group, unique in any letter case")
	name.Required, name.Unique = true, true
	external := text("externalId", "Identifier of the group in the directory")
	external.CaseExact = true
	member := &Attribute{Name: "members", Kind: Complex, Many: true, Description: "Members of the group", Sub: []*Attribute{
		{Name: "value", Kind: String, Description: "Id of the user", CaseExact: true, Immutable: true},
		{Name: "$ref", Kind: Reference, Refers: []string{"User"}, Description: "Address of the user", CaseExact: true, Immutable: true},
		{Name: "type", Kind: String, Description: "Always User", Values: []string{"User"}, Immutable: true},
	}}
	return &Type{
		Name: "Group", Endpoint: "/Groups", Description: "Groups of users",
		Schema: &Schema{URN: GroupURN, Name: "Group", Description: "Group", Attributes: []*Attribute{name, external, member}},
	}
}
