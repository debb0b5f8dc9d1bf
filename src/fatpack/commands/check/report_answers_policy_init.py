"""What ``fatpack check`` says of a policy: as text, for GitHub, as JUnit, as SARIF. One record, rendered."""
