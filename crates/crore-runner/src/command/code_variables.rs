//! Environment variables that make programs load or execute code.
//!
//! An operator who allows a few programs does not expect a handler to run others through them: a preloaded library, a
//! start-up file of an interpreter, or a command that a program calls by the value of a variable.

use crore_core::{Code, Invalid};

use crate::pattern::Patterns;

/// Names; `*` at the end matches any characters.
#[rustfmt::skip]
const CODE_VARIABLES: &[&str] = &[
    // The dynamic linker and the C library.
    "LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES",
    // Shells. `BASH_*` includes exported functions.
    "BASH_*", "BASHOPTS", "ENV", "FPATH", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "ZDOTDIR",
    // Python.
    "PYTHONBREAKPOINT", "PYTHONEXECUTABLE", "PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONPLATLIBDIR",
    "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONWARNINGS",
    // Perl, Ruby, Lua, PHP, R, Julia, Tcl, Awk.
    "PERL5DB", "PERL5LIB", "PERL5OPT", "PERLLIB", "PERL5SHELL", "RUBYLIB", "RUBYOPT", "GEM_HOME", "GEM_PATH",
    "BUNDLE_GEMFILE", "LUA_CPATH*", "LUA_INIT*", "LUA_PATH*", "PHPRC", "PHP_INI_SCAN_DIR", "R_ENVIRON*", "R_PROFILE*",
    "JULIA_LOAD_PATH", "TCLLIBPATH", "AWKLIBPATH", "AWKPATH",
    // Node, Java, .NET, Erlang.
    "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "npm_config_*", "CLASSPATH", "JAVA_OPTS",
    "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CORECLR_*", "COR_*", "DOTNET_STARTUP_HOOKS",
    "DOTNET_ADDITIONAL_DEPS", "ERL_*",
    // Programs that call others.
    "BROWSER", "EDITOR", "GIT_*", "LESSCLOSE", "LESSOPEN", "MAKEFILES", "MAKEFLAGS", "MANPAGER", "PAGER", "RSYNC_RSH",
    "SSH_ASKPASS", "TAR_OPTIONS", "VISUAL",
    // Libraries with modules.
    "GIO_EXTRA_MODULES", "GTK_MODULES", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "QT_PLUGIN_PATH",
];

/// Refuses a variable of a handler that makes programs run code, unless the operator allows its name. `PATH` is one of
/// them if programs are restricted: a program may call others by name.
pub(super) fn check(
    field: &str,
    name: &str,
    allowed: &Patterns,
    programs: &Patterns,
) -> Result<(), Invalid> {
    let is_code = CODE_VARIABLES.iter().any(|known| match known.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *known,
    });
    let is_path = name == "PATH" && !programs.is_empty();
    // An empty list of patterns allows everything, but this one nothing.
    if !(is_code || is_path) || !allowed.is_empty() && allowed.allows(name) {
        return Ok(());
    }
    let message = format!(
        "`{name}` is not allowed: it can make a program run other code; allow it in `runners.code-variables` in the \
         configuration"
    );
    Err(Invalid::new(Code::RunnerForbidden, field, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Patterns {
        texts.iter().map(|text| text.parse().expect("a pattern")).collect()
    }

    #[test]
    fn variables_that_run_code_need_permission_by_name() {
        let none = Patterns::default();
        for name in [
            "LD_PRELOAD",
            "LD_AUDIT",
            "BASH_ENV",
            "BASH_FUNC_ls%%",
            "ENV",
            "PYTHONSTARTUP",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "PERL5OPT",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "LUA_INIT_5_4",
            "GIT_SSH_COMMAND",
        ] {
            let refused = check("settings.env.X", name, &none, &none).expect_err("not allowed");
            assert_eq!(
                (refused.code, refused.field.as_str()),
                (Code::RunnerForbidden, "settings.env.X")
            );
            assert!(refused.message.contains("`runners.code-variables`"), "{refused}");
            assert_eq!(check("f", name, &patterns(&["OTHER", name]), &none), Ok(()), "{name}");
            assert!(check("f", name, &patterns(&["OTHER"]), &none).is_err(), "{name}");
        }
        for name in ["LANG", "TZ", "PYTHONUNBUFFERED", "NODE_ENV", "ENVIRONMENT", "GITHUB_TOKEN"] {
            assert_eq!(check("f", name, &none, &none), Ok(()), "{name}");
        }
    }

    #[test]
    fn the_path_is_free_unless_programs_are_restricted() {
        let (none, some) = (Patterns::default(), patterns(&["/usr/bin/*"]));
        assert_eq!(check("f", "PATH", &none, &none), Ok(()));
        assert!(check("f", "PATH", &none, &some).is_err());
        assert_eq!(check("f", "PATH", &patterns(&["PATH"]), &some), Ok(()));
    }
}
