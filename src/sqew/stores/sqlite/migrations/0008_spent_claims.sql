-- The highest claim number that was answered or finished under the consumer's epoch. A request that comes late must not
-- make a claim of that number again, with messages in it that nobody has read.
ALTER TABLE sqew_consumer ADD COLUMN spent INTEGER NOT NULL DEFAULT 0;
