BEGIN TRANSACTION;
CREATE TABLE inid_charges (
	ledger TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	time TEXT NOT NULL, 
	label TEXT NOT NULL, 
	"plan" TEXT NOT NULL, 
	certificate TEXT NOT NULL, 
	cost TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	PRIMARY KEY (ledger, number), 
	FOREIGN KEY(ledger) REFERENCES inid_ledgers (name)
);
INSERT INTO "inid_charges" VALUES('default',1,'2026-11-15T22:37:51.850892+00:00','means','{"inid": 1, "sensitivity": {"kind": "box", "limits": [1.0, 3.0], "counts": null, "norm": null, "l1": null, "l2": null, "total": null, "labels": ["a", "b"], "neighbours": "add_remove"}, "budget": {"kind": "PureDP", "epsilon": 0.25}, "mechanism": "laplace", "allocation": "optimal", "order": 2.0, "weights": null, "scales": [12.32033529220762, 17.768998281229635]}','{"promise": "PureDP(epsilon=0.25)", "mechanism": "laplace", "statement": "sup over the set of sum |d_i| / beta_i <= epsilon", "spent": 0.24999999999999997, "arithmetic": "exact rational arithmetic on the plan''s own floats", "dimension": 2, "sensitivity": "box of 2 coordinates, limits 1 to 3, neighbours: add_remove", "fingerprint": "c626464a1235139c"}','{"epsilon": "1/4", "mu_squared": "1772376609289299980838984974761/20282409603651670423947251286016", "renyi": "1130548311870161/9007199254740992"}','99963541f6e1e286732b6b71d9f1c5811bcbab6f25dbbc8d94d4f01497f16578');
INSERT INTO "inid_charges" VALUES('default',2,'2026-11-15T22:37:51.910441+00:00','two
lines','{"inid": 1, "sensitivity": {"kind": "box", "limits": [1.0, 3.0], "counts": null, "norm": null, "l1": null, "l2": null, "total": null, "labels": ["a", "b"], "neighbours": "add_remove"}, "budget": {"kind": "ApproxDP", "epsilon": 0.5, "delta": 1e-08}, "mechanism": "gaussian", "allocation": "optimal", "order": 2.0, "weights": null, "scales": [19.72706759234767, 34.16828335429161]}','{"promise": "ApproxDP(epsilon=0.5, delta=1e-08)", "mechanism": "gaussian", "statement": "sup over the set of sum d_i^2 / sigma_i^2 <= mu^2, where mu has phi_epsilon(mu) <= delta", "spent": 0.010278622734570026, "arithmetic": "exact rational arithmetic on the plan''s own floats; the normal tails enclosed by integers, to 2^-224 or finer", "dimension": 2, "sensitivity": "box of 2 coordinates, limits 1 to 3, neighbours: add_remove", "fingerprint": "c626464a1235139c"}','{"epsilon": null, "mu_squared": "223848580659638843031240483123610848141/21778071482940061661655974875633165533184", "renyi": "34312629686412740054043697455602688857293185/713623846352979940529142984724747568191373312"}','f6970a8e0149360ff070db8ba1e0a092bb506dbe27b3d65b1ffaf0bc6d93fd5a');
INSERT INTO "inid_charges" VALUES('default',3,'2026-11-15T22:37:51.940145+00:00','','{"inid": 1, "sensitivity": {"kind": "box", "limits": [1.0, 3.0], "counts": null, "norm": null, "l1": null, "l2": null, "total": null, "labels": ["a", "b"], "neighbours": "add_remove"}, "budget": {"kind": "GaussianDP", "mu": 0.1}, "mechanism": "gaussian", "allocation": "optimal", "order": 2.0, "weights": null, "scales": [20.000000000000004, 34.64101615137755]}','{"promise": "GaussianDP(mu=0.1)", "mechanism": "gaussian", "statement": "sup over the set of sum d_i^2 / sigma_i^2 <= mu^2", "spent": 0.009999999999999998, "arithmetic": "exact rational arithmetic on the plan''s own floats", "dimension": 2, "sensitivity": "box of 2 coordinates, limits 1 to 3, neighbours: add_remove", "fingerprint": "c626464a1235139c"}','{"epsilon": null, "mu_squared": "1/100", "renyi": "30657/655360"}','41b545245d28edc7874aca346d82aef5c2765fa2d24ef59458fb7562e2d624aa');
CREATE TABLE inid_ledgers (
	name TEXT NOT NULL, 
	settings TEXT NOT NULL, 
	charges INTEGER NOT NULL, 
	spent TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "inid_ledgers" VALUES('default','{"neighbours": "add_remove", "rule": "auto", "terms": {"limits": {"epsilon": "3", "mu_squared": "32184758889825774332481718663041/81129638414606681695789005144064", "renyi": "130272998144295909017461848397/79228162514264337593543950336"}, "order": "153285/16384"}, "total": {"delta": 1e-06, "epsilon": 3.0, "kind": "ApproxDP"}, "unit": "row"}',3,'{"epsilon": null, "mu_squared": "58617604719056694118925425224710315188421/544451787073501541541399371890829138329600", "renyi": "786332059710568654838013731825427332545791877/3568119231764899702645714923623737840956866560"}','41b545245d28edc7874aca346d82aef5c2765fa2d24ef59458fb7562e2d624aa');
CREATE TABLE inid_schema (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "inid_schema" VALUES(1);
COMMIT;
