-- dump
CREATE TABLE `channels` (`id` integer, `type` integer DEFAULT 0, `key` text NOT NULL, `status` integer DEFAULT 1, `name` text, `weight` integer DEFAULT 0, `base_url` text DEFAULT "", `other` text, `models` text, `group` varchar(32) DEFAULT 'default', `model_mapping` varchar(1024) DEFAULT '', `priority` bigint DEFAULT 0, `config` text, PRIMARY KEY (`id`));
INSERT INTO "users" VALUES(1,'root; INSERT INTO channels','x');
INSERT INTO channels VALUES(1,1,'sk-oneapi-plain-0123456789',1,'It''s main',5,'UPSTREAM','','gpt-4o,gpt-4','default','{"gpt-4":"gpt-4-0613"}',10,'');
INSERT INTO channels VALUES(2,1,'sk-oneapi-other-0123456789',1,'spare',0,'UPSTREAM','','gpt-4o','vip','',0,''),(3,22,'k',1,'odd',0,'','','x','default','',0,''),(4,1,'k2',2,'off',0,'','','y','default','',0,'');
