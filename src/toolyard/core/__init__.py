"""What Toolyard is made of: words, facts and decisions. No I/O and no clock."""
