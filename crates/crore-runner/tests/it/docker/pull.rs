//! Images from a registry, which is a real one, too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crore_runner::docker::Docker;
use crore_runner::{Class, Maker};
use crore_testkit::{Launch, Package, Process, or_skip};
use serde_json::{Value, json};

use super::engine::{Engine, install};
use crate::run::{Around, run, task, texts};

const REGISTRY: Package =
    Package::Other { name: "docker-registry", programs: &["docker-registry"] };
const SCRIPT: &str = r#"
cat > config.yml <<END
version: 0.1
storage: { filesystem: { rootdirectory: $PWD/images } }
http: { addr: 127.0.0.1:$1 }
END
if [ -n "$2" ]; then
    echo "$2" > passwords
    echo "auth: { htpasswd: { realm: crore, path: $PWD/passwords } }" >> config.yml
fi
exec docker-registry serve config.yml
"#;

/// Who may use a registry, as it knows him, and as he logs in. A login with this password has both
/// characters that the two alphabets of base64 do not share.
const KNOWN: &str = "team:$2y$04$m26Fn3wPT8TlyseAt9eNuuf8yGZLBcuci6i4I4.AZF2KmgXzlF4SO";
const USER: &str = "team";
const PASSWORD: &str = "hush~~~???>>>ÿ";

/// A registry that an engine on this machine may use without a certificate, by whoever is known.
fn registry(known: &str) -> Option<Process> {
    install(&[REGISTRY]);
    or_skip(REGISTRY.require())?;
    let is_ready = |_: &Process| Ok(());
    or_skip(Process::start(&Launch::new("registry", SCRIPT).args([known]), is_ready))
}

/// Makes an image that says `word`.
fn make(engine: &Engine, image: &str, word: &str) {
    let command = |words: &[&str]| engine.docker.command(words).expect("it is done");
    let change = format!(r#"CMD ["echo", "{word}"]"#);
    let made = command(&["create", crore_testkit::Docker::IMAGE, "true"]);
    command(&["commit", "--change", &change, &made, image]);
    command(&["rm", &made]);
}

/// Puts an image that says `word` into the registry, and takes it away from the engine.
fn publish(engine: &Engine, image: &str, word: &str) {
    publish_as(engine, image, word, &[]);
}

/// The same, by somebody.
fn publish_as(engine: &Engine, image: &str, word: &str, who: &[&str]) {
    make(engine, image, word);
    engine.docker.command(&[who, &["push", "--quiet", image]].concat()).expect("pushed");
    engine.docker.command(&["rmi", image]).expect("removed");
}

#[tokio::test]
async fn an_image_is_pulled_when_it_is_missing_or_always_and_a_pool_does_so_once() {
    let Some(engine) = Engine::start() else { return };
    let Some(registry) = registry("") else { return };
    let image = format!("127.0.0.1:{}/team/box", registry.port());
    let tagged = format!("{image}:latest");
    publish(&engine, &tagged, "first");
    let maker = Docker::new(engine.options.clone());
    let runner = async |settings: Value| maker.make(&settings).await.expect("settings");
    let missing = runner(json!({ "image": image })).await;
    let around = Around::new();
    let output = missing.run(&task(""), &around.context).await.expect("it is pulled");
    assert_eq!(texts(&output), ["first\n"]);
    assert_eq!(around.lines(), [format!("pulling the image `{image}`"), "first".to_owned()]);

    publish(&engine, &tagged, "second");
    make(&engine, &tagged, "stale");
    assert_eq!(texts(&run(&*missing, "").await.expect("it is there")), ["stale\n"]);
    let always = json!({ "image": image, "pull": "always" });
    let pooled = runner(always.clone()).await;
    assert_eq!(texts(&run(&*pooled, "").await.expect("it is pulled")), ["second\n"]);

    let around = Around::new();
    pooled.run(&task(""), &around.context).await.expect("it is there");
    assert_eq!(around.lines(), ["second"], "it was pulled once");
    let around = Around::new();
    runner(always).await.run(&task(""), &around.context).await.expect("it is pulled");
    assert_eq!(around.lines().len(), 2, "another runner pulls it again");

    let nobodys = runner(json!({ "image": format!("{image}:none") })).await;
    let failure = run(&*nobodys, "").await.expect_err("the registry has none such");
    assert!(failure.error.contains("cannot be had: manifest"), "{failure}");
    assert_eq!(failure.class, Class::Fatal);
    engine.assert_nothing_left();
}

#[tokio::test]
async fn a_registry_that_wants_to_know_who_pulls_is_told_and_nobody_else_is() {
    let Some(engine) = Engine::start() else { return };
    let Some(registry) = registry(KNOWN) else { return };
    let address = format!("127.0.0.1:{}", registry.port());
    let image = format!("{address}/team/box");
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        format!("file:{}", path.display())
    };
    let (right, wrong) = (file("right", PASSWORD), file("wrong", "hush-hush"));
    let login = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    file("config.json", &json!({ "auths": { &address: { "auth": login } } }).to_string());
    let config = dir.path().display().to_string();
    publish_as(&engine, &format!("{image}:latest"), "private", &["--config", &config]);

    let maker = Docker::new(engine.options.clone());
    let pull = async |settings: Value, payload: &str| {
        let around = Around::new();
        let runner = maker.make(&settings).await.expect("settings");
        let ran = runner.run(&task(payload), &around.context).await;
        (ran, around.lines().join("\n"))
    };
    let by = |password: &str| json!({ "image": image, "registry": { "user": USER, "password": password } });
    for settings in [json!({ "image": image }), by(&wrong)] {
        let (ran, said) = pull(settings, "").await;
        let failure = ran.expect_err("it is private");
        assert!(failure.error.contains("cannot be had: "), "{failure}");
        assert_eq!(failure.class, Class::Fatal);
        assert!(!format!("{failure:?}{said}").contains("hush"), "{failure:?} {said}");
    }
    let (ran, said) = pull(by("file:/no/such/secret"), "").await;
    let failure = ran.expect_err("there is no password");
    assert!(failure.error.starts_with("the secret `file:/no/such/secret`"), "{failure}");
    assert!(!said.contains("private"), "{said}");
    let (ran, said) = pull(by(&right), "").await;
    assert_eq!(texts(&ran.expect("it is pulled")), ["private\n"]);
    assert!(!said.contains("hush"), "{said}");

    // An image that a job names is pulled by whoever the handler says, and by him only from there.
    engine.docker.command(&["rmi", &image]).expect("removed");
    let mut settings = by(&right);
    settings["payload"] = json!("config");
    settings.as_object_mut().expect("an object").remove("image");
    settings["registry"]["address"] = json!(address);
    let (ran, _) = pull(settings.clone(), &json!({ "Image": image }).to_string()).await;
    assert_eq!(texts(&ran.expect("it is pulled")), ["private\n"]);
    engine.docker.command(&["rmi", &image]).expect("removed");
    settings["registry"]["address"] = json!("registry.example.com");
    let (ran, _) = pull(settings, &json!({ "Image": image }).to_string()).await;
    let failure = ran.expect_err("this registry was not told who pulls");
    assert!(failure.error.contains("cannot be had: "), "{failure}");
    engine.assert_nothing_left();
}
