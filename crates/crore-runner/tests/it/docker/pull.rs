//! Image pulls from a real registry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crore_runner::docker::DockerFactory;
use crore_runner::{FailureClass, RunnerFactory};
use crore_testkit::{DebianPackage, ServerSpec, SupervisedServer, or_skip};
use serde_json::{Value, json};

use super::engine::{Engine, install};
use crate::recorded_run::{RecordedRun, run, task, texts};

const REGISTRY: DebianPackage =
    DebianPackage::Other { name: "docker-registry", programs: &["docker-registry"] };
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

/// The user of a registry: htpasswd entry, name and password. In base64, the login with this password contains both
/// characters in which the standard and the URL-safe alphabet differ.
const HTPASSWD: &str = "team:$2y$04$m26Fn3wPT8TlyseAt9eNuuf8yGZLBcuci6i4I4.AZF2KmgXzlF4SO";
const USER: &str = "team";
const PASSWORD: &str = "hush~~~???>>>ÿ";

/// Starts a registry on loopback, which the engine may use without TLS. `known` is the htpasswd entry of its user; if
/// it is empty, the registry needs no login.
fn registry(known: &str) -> Option<SupervisedServer> {
    install(&[REGISTRY]);
    or_skip(REGISTRY.require())?;
    let is_ready = |_: &SupervisedServer| Ok(());
    or_skip(SupervisedServer::start(&ServerSpec::new("registry", SCRIPT).args([known]), is_ready))
}

/// Creates an image that prints `word`.
fn make(engine: &Engine, image: &str, word: &str) {
    let command = |words: &[&str]| engine.docker.command(words).expect("it is done");
    let change = format!(r#"CMD ["echo", "{word}"]"#);
    let made = command(&["create", crore_testkit::DockerServer::IMAGE, "true"]);
    command(&["commit", "--change", &change, &made, image]);
    command(&["rm", &made]);
}

/// Pushes an image that prints `word`, and removes it from the engine.
fn publish(engine: &Engine, image: &str, word: &str) {
    publish_as(engine, image, word, &[]);
}

/// Like [`publish`], with additional options for the docker client.
fn publish_as(engine: &Engine, image: &str, word: &str, who: &[&str]) {
    make(engine, image, word);
    engine.docker.command(&[who, &["push", "--quiet", image]].concat()).expect("pushed");
    engine.docker.command(&["rmi", image]).expect("removed");
}

#[tokio::test]
async fn an_image_is_pulled_if_missing_or_always_and_once_per_pool() {
    let Some(engine) = Engine::start() else { return };
    let Some(registry) = registry("") else { return };
    let image = format!("127.0.0.1:{}/team/box", registry.port());
    let tagged = format!("{image}:latest");
    publish(&engine, &tagged, "first");
    let maker = DockerFactory::new(engine.options.clone());
    let runner = async |settings: Value| maker.make(&settings).await.expect("settings");
    let missing = runner(json!({ "image": image })).await;
    let recorded = RecordedRun::new();
    let output = missing.run(&task(""), &recorded.context).await.expect("it is pulled");
    assert_eq!(texts(&output), ["first\n"]);
    assert_eq!(recorded.lines(), [format!("pulling the image `{image}`"), "first".to_owned()]);

    publish(&engine, &tagged, "second");
    make(&engine, &tagged, "stale");
    assert_eq!(texts(&run(&*missing, "").await.expect("it exists")), ["stale\n"]);
    let always = json!({ "image": image, "pull": "always" });
    let pooled = runner(always.clone()).await;
    assert_eq!(texts(&run(&*pooled, "").await.expect("it is pulled")), ["second\n"]);

    let recorded = RecordedRun::new();
    pooled.run(&task(""), &recorded.context).await.expect("it exists");
    assert_eq!(recorded.lines(), ["second"], "it was pulled once");
    let recorded = RecordedRun::new();
    runner(always).await.run(&task(""), &recorded.context).await.expect("it is pulled");
    assert_eq!(recorded.lines().len(), 2, "another runner pulls it again");

    let nobodys = runner(json!({ "image": format!("{image}:none") })).await;
    let failure = run(&*nobodys, "").await.expect_err("the registry has no such image");
    assert!(failure.error.contains("is not available: manifest"), "{failure}");
    assert_eq!(failure.class, FailureClass::Fatal);
    engine.assert_nothing_left();
}

#[tokio::test]
async fn login_is_sent_only_to_its_registry() {
    let Some(engine) = Engine::start() else { return };
    let Some(registry) = registry(HTPASSWD) else { return };
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

    let maker = DockerFactory::new(engine.options.clone());
    let pull = async |settings: Value, payload: &str| {
        let recorded = RecordedRun::new();
        let runner = maker.make(&settings).await.expect("settings");
        let ran = runner.run(&task(payload), &recorded.context).await;
        (ran, recorded.lines().join("\n"))
    };
    let by = |password: &str| json!({ "image": image, "registry": { "user": USER, "password": password } });
    for settings in [json!({ "image": image }), by(&wrong)] {
        let (ran, log) = pull(settings, "").await;
        let failure = ran.expect_err("it is private");
        assert!(failure.error.contains("is not available: "), "{failure}");
        assert_eq!(failure.class, FailureClass::Fatal);
        assert!(!format!("{failure:?}{log}").contains("hush"), "{failure:?} {log}");
    }
    let (ran, log) = pull(by("file:/no/such/secret"), "").await;
    let failure = ran.expect_err("there is no password");
    assert!(failure.error.starts_with("the secret `file:/no/such/secret`"), "{failure}");
    assert!(!log.contains("private"), "{log}");
    let (ran, log) = pull(by(&right), "").await;
    assert_eq!(texts(&ran.expect("it is pulled")), ["private\n"]);
    assert!(!log.contains("hush"), "{log}");

    // An image that a job names is pulled with the handler's login, but only from the login's registry.
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
    let failure = ran.expect_err("no login for this registry");
    assert!(failure.error.contains("is not available: "), "{failure}");
    engine.assert_nothing_left();
}
