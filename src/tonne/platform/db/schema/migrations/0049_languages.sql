-- compatible_from: 34
-- The languages of pages, mails and PDFs. Orders and accounts of an earlier release are English.

-- accounts -----------------------------------------------------------------------------------------------------

-- Of its orders, unless their customers chose another.
ALTER TABLE accounts ADD COLUMN language text NOT NULL DEFAULT 'en';

-- orders -------------------------------------------------------------------------------------------------------

-- Of its mails and PDFs, fixed when the order is placed.
ALTER TABLE orders ADD COLUMN language text NOT NULL DEFAULT 'en';

-- checkout -----------------------------------------------------------------------------------------------------

-- Of the page for visitors whose browser names none of ours. Null: the account's.
ALTER TABLE offset_links ADD COLUMN language text;
