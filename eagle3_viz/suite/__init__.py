"""Methods times settings times prompt sets on one pair: run, tabulated, compared."""
