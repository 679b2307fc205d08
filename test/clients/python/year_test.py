"""A year of a company's directory against two gateways, with the requests of scim-sim; run by go test ./test/clients.

People join, change teams, leave and are removed in a random order that a seed decides. In the middle, one of the
gateways is killed. Whatever a directory does when a connection breaks is done: it asks again. At the end, the
gateways have exactly the people and groups that the simulation has.
"""

import json
import os
import random
import threading
import unittest
import urllib.error
import urllib.parse
import urllib.request

import requests
import scim_sim.groups.groups as groups
import scim_sim.users.users as users

URL, KEY = os.environ["PEOPLE_URL"], os.environ["GATEWAY_KEY"]
BASE = URL + "/scim/v2"
PEOPLE = int(os.environ.get("YEAR_PEOPLE", "200"))
TEAMS = max(4, PEOPLE // 25)
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


def admin(method, path, body=None):
    request = urllib.request.Request(URL + path, method=method, data=json.dumps(body).encode() if body else None,
                                     headers={"x-gateway-api-key": KEY, "content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


class Directory:
    """Sends requests, again after a failure of the connection or of a node."""

    def __init__(self, token):
        self.session = requests.Session()
        self.headers = {"Authorization": "Bearer " + token, "Content-Type": "application/scim+json"}
        self.repeated = 0

    def send(self, method, path, body=None):
        for _ in range(50):
            try:
                answer = self.session.request(method, BASE + path, headers=self.headers, json=body, timeout=60)
                if answer.status_code < 500:
                    return answer
            except requests.RequestException:
                pass
            self.repeated += 1
        raise AssertionError(f"{method} {path} failed 50 times")

    def want(self, method, path, body=None, also=()):
        """Returns the answer, which is a success or one of the statuses that a repeated request may get."""
        before = self.repeated
        answer = self.send(method, path, body)
        if not answer.ok and not (self.repeated > before and answer.status_code in also):
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer

    def create(self, kind, attribute, body):
        """Creates a user or a group. A repeated request that finds it there takes it."""
        answer = self.want("POST", "/" + kind, body, also=(409,))
        if answer.status_code != 409:
            return answer.json()["id"]
        found = self.want("GET", f"/{kind}?" + urllib.parse.urlencode({"filter": f'{attribute} eq "{body[attribute]}"'})).json()
        return found["Resources"][0]["id"]

    def change_members(self, group, op, user):
        operation = {"op": op, "path": "members", "value": [{"value": user}]}
        if op == "remove":
            operation = {"op": op, "path": f'members[value eq "{user}"]'}
        self.want("PATCH", "/Groups/" + group, {"schemas": [PATCH], "Operations": [operation]})

    def all(self, kind):
        """Returns all objects, page by page."""
        found, start = [], 1
        while True:
            page = self.want("GET", f"/{kind}?startIndex={start}&count=100").json()
            found += page.get("Resources", [])
            start += 100
            if start > page["totalResults"]:
                return found


class Year(unittest.TestCase):
    def test_the_final_state_is_the_simulations(self):
        users.fake.seed_instance(42)
        random.seed(42)
        chance = random.Random(42)
        token = admin("POST", "/scim/tokens", {"name": "year"})["token"]
        d = Directory(token)
        names, people, teams = set(), {}, {}  # people: id to (name, active); teams: id to members

        def join():
            body = users.generate_random_payload()
            body["userName"] = body["emails"][0]["value"] = f"p{len(names)}@example.com"  # the domain is verified
            names.add(body["userName"])
            user = d.create("Users", "userName", body)
            self.assertNotIn(user, people)
            people[user] = [body["userName"], True]
            return user

        def move(user):
            team = chance.choice(sorted(teams))
            if user in teams[team]:
                d.change_members(team, "remove", user)
                teams[team].discard(user)
            else:
                d.change_members(team, "add", user)
                teams[team].add(user)

        def leave(user, active=False):
            d.want("PATCH", "/Users/" + user, {"schemas": [PATCH], "Operations": [{"op": "replace", "value": {"active": active}}]})
            people[user][1] = active

        def purge(user):
            d.want("DELETE", "/Users/" + user, also=(404,))
            del people[user]
            for members in teams.values():
                members.discard(user)

        for i in range(TEAMS):
            name = f"ws-Team {i}-role-{chance.choice(['admin', 'manager', 'member'])}" if i % 2 else f"Team {i}"
            teams[d.create("Groups", "displayName", groups.generate_group_payload(name))] = set()
        for _ in range(PEOPLE // 2):
            move(join())
        for day in range(365):
            if day == 180:
                kill = threading.Thread(target=requests.post, args=(URL.removesuffix("/v1") + "/cluster?kill=0",))
                kill.start()
            for _ in range(max(1, PEOPLE // 365)):
                ids = sorted(people)
                if len(names) < PEOPLE:
                    move(join())
                move(chance.choice(ids))
                if chance.random() < 0.3:
                    user = chance.choice(ids)
                    leave(user, active=not people[user][1])
                if chance.random() < 0.1:
                    purge(chance.choice(sorted(people)))
            if day == 200:  # a reorganisation: scim-sim removes a team with its members
                team = max(teams, key=lambda t: len(teams[t]))
                for user in sorted(teams[team]):
                    purge(user)
                d.want("DELETE", "/Groups/" + team, also=(404,))
                del teams[team]

        kill.join()
        self.assertGreater(d.repeated, 0, "no node was killed")
        found = {u["id"]: [u["userName"], u["active"]] for u in d.all("Users")}
        self.assertEqual(found, people)
        found = {g["id"]: {m["value"] for m in g.get("members") or []} for g in d.all("Groups")}
        self.assertEqual(found, teams)
        for user in people:
            self.assertEqual(admin("GET", "/admin/users/" + user)["id"], user)
        print(f"\n{len(names)} people joined, {len(people)} are left, in {len(teams)} teams; {d.repeated} requests were repeated")


if __name__ == "__main__":
    unittest.main()
