-- The number is given to the records of stored objects, which replace this file.
SELECT 1;
