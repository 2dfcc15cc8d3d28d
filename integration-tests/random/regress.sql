-- a first case
SELECT k, id FROM a WHERE k = 3
