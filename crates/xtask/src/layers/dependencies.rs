//! Dependencies between crates, read from `cargo metadata` and checked against the plan.

use serde_json::Value;

use super::plan::{CONFORMANCE, CrateRule, ExternalCrates, FOR_DEVELOPERS, TESTS_ONLY};

/// A crate of the workspace and its dependencies.
#[derive(Debug)]
pub(super) struct WorkspacePackage {
    name: String,
    dependencies: Vec<PackageDependency>,
}

#[derive(Debug)]
struct PackageDependency {
    to: String,
    /// A dependency of tests, examples and benchmarks only.
    dev: bool,
}

/// The packages in the output of `cargo metadata --no-deps`.
pub(super) fn read(json: &str) -> Result<Vec<WorkspacePackage>, String> {
    let metadata: Value =
        serde_json::from_str(json).map_err(|error| format!("cargo metadata: {error}"))?;
    list(&metadata, "packages")?.iter().map(read_package).collect()
}

fn read_package(package: &Value) -> Result<WorkspacePackage, String> {
    let dependencies = list(package, "dependencies")?.iter().map(read_dependency);
    Ok(WorkspacePackage {
        name: text(package, "name")?,
        dependencies: dependencies.collect::<Result<_, _>>()?,
    })
}

fn read_dependency(dependency: &Value) -> Result<PackageDependency, String> {
    Ok(PackageDependency { to: text(dependency, "name")?, dev: dependency["kind"] == "dev" })
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>, String> {
    value[field].as_array().ok_or_else(|| format!("cargo metadata has no list `{field}`"))
}

fn text(value: &Value, field: &str) -> Result<String, String> {
    let text = value[field].as_str().ok_or_else(|| format!("cargo metadata has no `{field}`"))?;
    Ok(text.to_owned())
}

/// Every dependency that the plan does not allow, and every crate that is not in it.
pub(super) fn check(packages: &[WorkspacePackage], rules: &[CrateRule]) -> Vec<String> {
    let members: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut faults = Vec::new();
    for package in packages {
        let Some(rule) = rules.iter().find(|rule| rule.name == package.name) else {
            faults.push(format!("`{}` is not in the plan: add it to `CRATES`", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let fault = if members.contains(&dependency.to.as_str()) {
                workspace_fault(rule, dependency)
            } else {
                external_fault(rule, dependency)
            };
            faults.extend(fault);
        }
    }
    faults
}

/// Checks a dependency on another crate of the workspace. A crate may be its own dev-dependency, to enable its features
/// in its tests.
fn workspace_fault(rule: &CrateRule, dependency: &PackageDependency) -> Option<String> {
    let CrateRule { name, uses, .. } = rule;
    let to = dependency.to.as_str();
    if to == *name && dependency.dev {
        return None;
    }
    if !uses.contains(&to) {
        let allowed = if uses.is_empty() { "none".to_owned() } else { uses.join(", ") };
        return Some(format!("`{name}` uses `{to}`; allowed crates of the workspace: {allowed}"));
    }
    let is_shipped = !FOR_DEVELOPERS.contains(name);
    ([TESTS_ONLY, CONFORMANCE].contains(&to) && is_shipped && !dependency.dev)
        .then(|| format!("`{name}` uses `{to}` in the product; make it a dev-dependency"))
}

/// Checks a dependency on an external crate.
fn external_fault(rule: &CrateRule, dependency: &PackageDependency) -> Option<String> {
    let is_forbidden = |family: &&&ExternalCrates| family.crates.contains(&dependency.to.as_str());
    let family = rule.forbids.iter().find(is_forbidden).filter(|_| !dependency.dev)?;
    Some(format!("`{}` depends on `{}`; {}", rule.name, dependency.to, family.hint))
}

#[cfg(test)]
mod tests {
    use super::super::plan::CRATES;
    use super::*;
    use serde_json::json;

    /// The faults of a workspace with every crate of the plan, in which `name` has one dependency.
    fn faults(name: &str, dependency: &Value) -> Vec<String> {
        let packages = CRATES.iter().map(|rule| {
            let dependencies = if rule.name == name { vec![dependency.clone()] } else { vec![] };
            json!({ "name": rule.name, "dependencies": dependencies })
        });
        let metadata = json!({ "packages": packages.collect::<Vec<_>>() }).to_string();
        check(&read(&metadata).expect("metadata"), CRATES)
    }

    fn normal(to: &str) -> Value {
        json!({ "name": to, "kind": null, "optional": false })
    }

    fn dev(to: &str) -> Value {
        json!({ "name": to, "kind": "dev", "optional": false })
    }

    fn optional(to: &str) -> Value {
        json!({ "name": to, "kind": null, "optional": true })
    }

    #[test]
    fn developer_crates_may_use_the_testkit_in_every_build() {
        assert_eq!(faults("crore-chaos", &normal("crore-testkit")), Vec::<String>::new());
        assert_eq!(faults("crore-conformance", &normal("crore-testkit")), Vec::<String>::new());
        assert_eq!(faults("crore-server", &normal("crore-testkit")).len(), 1);
        assert_eq!(faults("crore-server", &dev("crore-chaos")).len(), 1);
    }

    #[test]
    fn arrows_down_are_allowed_and_arrows_up_are_not() {
        for (from, to) in [
            ("crore-store", "crore-core"),
            ("crore-remote", "crore-store"),
            ("crore", "crore-store"),
            ("crore-testkit", "crore-core"),
        ] {
            assert_eq!(faults(from, &normal(to)), Vec::<String>::new(), "{from} to {to}");
            let up = faults(to, &normal(from));
            assert!(up.len() == 1 && up[0].contains(from), "{to} to {from}: {up:?}");
        }
        assert_eq!(faults("crore-core", &dev("crore-testkit")).len(), 1);
        assert_eq!(faults("crore", &normal("crore-remote")).len(), 1);
        assert_eq!(faults("crore-doors", &normal("crore-store")).len(), 1);
        assert_eq!(faults("xtask", &normal("crore-core")).len(), 1);
    }

    #[test]
    fn the_product_uses_test_crates_as_dev_dependencies_only() {
        for name in [TESTS_ONLY, CONFORMANCE] {
            assert_eq!(faults("crore-store", &dev(name)).len(), 0, "{name}");
            assert_eq!(faults("crore-store", &optional(name)).len(), 1, "{name}");
            assert_eq!(faults("crore-store", &normal(name)).len(), 1, "{name}");
        }
        assert_eq!(faults("crore-doors", &dev("crore-conformance")).len(), 1);
    }

    #[test]
    fn a_crate_may_use_itself_in_its_tests() {
        assert_eq!(faults("crore-store", &dev("crore-store")).len(), 0);
    }

    #[test]
    fn heavy_crates_stay_out_of_code_and_may_enter_tests() {
        for name in ["tokio", "sqlx", "redis", "rand", "reqwest"] {
            assert_eq!(faults("crore-core", &normal(name)).len(), 1, "{name}");
        }
        for name in ["tokio", "sqlx", "redis"] {
            assert_eq!(faults("crore-store", &normal(name)).len(), 1, "{name}");
            assert_eq!(faults("crore-store", &optional(name)).len(), 1, "{name}");
            assert_eq!(faults("crore-store", &dev(name)).len(), 0, "{name}");
        }
        assert_eq!(faults("crore-remote", &normal("sqlx")).len(), 0);
        assert_eq!(faults("crore-core", &normal("serde")).len(), 0);
    }

    #[test]
    fn an_unknown_crate_is_a_fault_with_a_hint() {
        let metadata = json!({ "packages": [{ "name": "crore-attic", "dependencies": [] }] });
        let found = check(&read(&metadata.to_string()).expect("metadata"), CRATES);
        assert_eq!(found, ["`crore-attic` is not in the plan: add it to `CRATES`"]);
    }

    #[test]
    fn metadata_of_another_shape_is_an_error() {
        for json in ["", "{}", r#"{"packages":[{}]}"#, r#"{"packages":[{"name":"a"}]}"#] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
