<?php
// Checks of PDO's driver for PostgreSQL, with and without its emulation of prepared statements.

require __DIR__ . '/checks.php';

$checks = (require __DIR__ . '/basics.php') + (require __DIR__ . '/application.php');
run($checks);
